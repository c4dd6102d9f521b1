import pickle
import subprocess
import sys

from realranks.watch import Bucket, Buckets

ONE = Bucket(0, ("out.bias", "out.weight", "in.bias", "in.weight"), (40, 2560, 256, 16384))
TWO = (Bucket(0, ("out.bias", "out.weight"), (40, 2560)), Bucket(1, ("in.bias", "in.weight"), (256, 16384)))
READY = ("out.bias", "out.weight", "in.bias", "in.weight")


def test_before_the_rebuild():
    found = Buckets("Net", (ONE,), None, (), rebuilds=True)
    assert found.now == (ONE,)
    assert repr(found) == (
        "Buckets of Net: 4 parameters, 18.8 KiB\n"
        "first iteration  | bucket 0 (18.8 KiB): out.bias, out.weight, in.bias, in.weight\n"
        "since the second | not rebuilt yet: DDP does it in the second forward\n"
        "gradients ready  | no backward yet"
    )


def test_after_the_rebuild():
    found = Buckets("Net", (ONE,), TWO, READY, rebuilds=True)
    assert found.now == TWO
    text = repr(found)
    assert "since the second | bucket 0 (2.54 KiB): out.bias, out.weight" in text
    assert "gradients ready  | out.bias, out.weight, in.bias, in.weight" in text


def test_where_ddp_never_rebuilds():
    assert "are not rebuilt" in repr(Buckets("Net", (ONE,), None, READY, rebuilds=False))


def test_html_says_what_the_text_says():
    html = Buckets("Net", (ONE,), TWO, READY, rebuilds=True)._repr_html_()
    assert "bucket 1 (16.2 KiB): in.bias, in.weight" in html
    assert "Buckets of Net" in html


def test_a_long_list_of_names_is_cut_in_text_alone():
    names = tuple(f"layer{number}.weight" for number in range(30))
    found = Buckets("Net", (Bucket(0, names, (4,) * 30),), None, (), rebuilds=True)
    assert "and 18 more" in repr(found)
    assert len(found.now[0].parameters) == 30


def test_they_travel_and_are_drawn_without_torch(tmp_path):
    data = tmp_path / "buckets"
    data.write_bytes(pickle.dumps(Buckets("Net", (ONE,), TWO, READY, rebuilds=True)))
    source = (
        "import pickle, sys\n"
        f"pickle.load(open({str(data)!r}, 'rb')).plot().save({str(tmp_path / 'b.svg')!r})\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0
    svg = (tmp_path / "b.svg").read_text()
    assert ">first iteration</text>" in svg
    assert ">since the second</text>" in svg
