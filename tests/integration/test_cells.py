"""A rank cell runs like a notebook cell: state, values, output, pictures."""

import sys
import textwrap

import pytest

from realranks.cells.show import description_in
from realranks.outcome.outcome import Kind
from realranks.outcome.packed import NotSent
from realranks.ranks.kernel.gang import State
from tests.support.ranks_and_kernels import until, until_gone

COURSE = "/realranks/"


def test_state_lasts_from_cell_to_cell(shared_ranks):
    shared_ranks("kept = [rank * 10]")
    outcome = shared_ranks("kept.append(1)\nkept")
    assert outcome.values == {rank: [rank * 10, 1] for rank in range(4)}


def test_the_last_expression_is_the_value(shared_ranks):
    outcome = shared_ranks("rank + 1")
    assert str(outcome) == "rank 0 | 1\nrank 1 | 2\nrank 2 | 3\nrank 3 | 4"
    assert outcome.values == {0: 1, 1: 2, 2: 3, 3: 4}


@pytest.mark.parametrize("source", ["rank;", "rank;  # quiet", "x = rank", "None", "", "# nothing", "pass"])
def test_a_cell_without_a_value_shows_nothing(shared_ranks, source):
    outcome = shared_ranks(source)
    assert outcome.ok
    assert str(outcome) == "(no output)"


def test_the_last_value_is_known_as_underscore(shared_ranks):
    shared_ranks("rank + 100")
    assert shared_ranks("_ + 1").values[2] == 103


def test_any_variable_can_be_fetched(shared_ranks):
    outcome = shared_ranks("loss = rank / 2")
    assert outcome["loss"] == {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.5}
    with pytest.raises(LookupError, match="No rank has a variable named 'no_such'"):
        outcome["no_such"]


def test_equal_output_is_folded_and_ranks_are_in_order(shared_ranks):
    outcome = shared_ranks("time.sleep(0.05 * (3 - rank))\nprint('same' if rank else 'first')")
    assert str(outcome) == "rank 0    | first\nranks 1-3 | same"


def test_stderr_is_kept_apart(shared_ranks):
    outcome = shared_ranks("print('out')\nprint('err', file=sys.stderr)")
    assert outcome.stdout[0] == "out\n"
    assert outcome.stderr[0] == "err\n"
    assert str(outcome) == "ranks 0-3 | out\n-- stderr --\nranks 0-3 | err"


def test_c_level_output_is_shown_too(shared_ranks):
    assert (
        shared_ranks("os.system('echo from a shell'); os.write(1, b'raw\\n');").stdout[1]
        == "from a shell\nraw\n"
    )


def test_unicode_and_bytes_that_are_none_are_shown(shared_ranks):
    outcome = shared_ranks(
        "print('日本 ∂ 🎉')\nos.write(1, b'caf\\xc3\\xa9 \\xff\\n');\nprint('lone \\ud800')"
    )
    assert outcome.ok
    assert outcome.stdout[0] == "日本 ∂ 🎉\ncafé \N{REPLACEMENT CHARACTER}\nlone \\ud800\n"


def test_100_megabytes_of_print_neither_hang_nor_fill_the_page(shared_ranks):
    outcome = shared_ranks("for _ in range(100):\n    print('x' * 999_999)\nprint('the end')")
    assert outcome.ok
    assert len(outcome.stdout[0]) < 1_000_000
    assert "MB not shown" in outcome.stdout[0]
    assert outcome.stdout[0].endswith("the end\n")


def test_a_rank_that_never_stops_printing_is_stopped_at_the_timeout(ranks):
    outcome = ranks("while True:\n    print('y' * 5000)", timeout=1.0)
    assert outcome.kind is Kind.HANG
    assert outcome.timed_out
    assert outcome.seconds < 15
    assert ranks("'still here'").ok


def test_a_thread_that_never_stops_printing_does_not_hold_up_the_next_cells(ranks):
    ranks(
        "import threading\ngo = True\n"
        "def spam():\n    while go:\n        os.write(1, b'z' * 4096)\n"
        "threading.Thread(target=spam, daemon=True).start()"
    )
    assert ranks("go = False\n'reached'").values[0] == "reached"


@pytest.mark.parametrize(
    "damage",
    [
        "sys.stdout.close()",
        "os.close(1)",
        "sys.stdout = None",
        "os.dup2(2, 1)",
        "del sys.stdout, sys.stderr",
        "sys.stdout.detach();",
        "class No:\n    def __getattribute__(self, name): raise OSError(name)\nsys.stdout = sys.stderr = No()",
    ],
)
def test_a_closed_stdout_is_open_again_in_the_next_cell(ranks, damage):
    assert ranks(damage).ok
    assert ranks("print('again')").stdout[3].endswith("again\n")


def test_stdout_may_be_redirected_for_a_while(shared_ranks):
    outcome = shared_ranks(
        "import contextlib, io\nb = io.StringIO()\n"
        "with contextlib.redirect_stdout(b):\n    print('hidden')\nb.getvalue()"
    )
    assert outcome.values[0] == "hidden\n"
    assert outcome.stdout[0] == ""


def test_a_progress_bar_leaves_its_last_state_without_times(shared_ranks):
    outcome = shared_ranks("from tqdm import tqdm\nfor _ in tqdm(range(3)):\n    pass")
    assert outcome.ok
    assert "100%" in str(outcome)
    assert "it/s" not in str(outcome)
    assert "0%|" not in str(outcome).replace("100%|", "")


def test_memory_addresses_do_not_differ_from_rank_to_rank(shared_ranks):
    assert str(shared_ranks("junk = [object() for _ in range(rank * 50)]\nlambda: 1")) == (
        "ranks 0-3 | <function <lambda> at 0x…>"
    )


def test_figures_are_sent_as_pictures(shared_ranks):
    outcome = shared_ranks(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, rank]);plt.title('×, … and so on')\nplt.show()\n"
        "figure, axes = plt.subplots(); axes.set_title('×');"
    )
    assert outcome.ok, str(outcome)
    assert {rank: len(found) for rank, found in outcome.pictures.items()} == {0: 2, 1: 2, 2: 2, 3: 2}
    assert outcome.pictures[0][0].startswith(b"\x89PNG")
    # Each says what it shows, for readers who do not see it.
    assert [description_in(png) for png in outcome.pictures[0]] == ["×, … and so on.", "×."]


def test_input_is_refused_with_a_reason(shared_ranks):
    outcome = shared_ranks("input('name? ')")
    assert outcome.kind is Kind.RAISES
    assert "input() has nobody to ask" in str(outcome)


def test_a_value_that_cannot_be_pickled_stays_on_its_rank(shared_ranks):
    outcome = shared_ranks("(n for n in [1])")
    assert outcome.ok
    assert isinstance(outcome.values[0], NotSent)
    assert "generator" in repr(outcome.values[0])


def test_a_large_value_is_fetched_only_when_asked_for(shared_ranks):
    outcome = shared_ranks("bytes(50_000_000) if rank == 1 else 7", only=(1, 2))
    assert sum(len(blob) for blob, _ in outcome.packed.values()) < 1000
    assert len(outcome.values[1]) == 50_000_000
    assert outcome.values[2] == 7


def test_a_small_view_of_a_large_tensor_does_not_travel_with_the_cell(shared_ranks):
    outcome = shared_ranks("torch.zeros(10_000_000)[:2]", only=(0,))
    assert outcome.ok
    assert not outcome.packed[0][0]
    assert not outcome.stderr[0]


def test_a_value_whose_repr_raises_is_still_a_value(shared_ranks):
    outcome = shared_ranks("class Odd:\n    def __repr__(self):\n        raise ValueError\nOdd()")
    assert outcome.ok
    assert "<Odd whose repr raises ValueError>" in str(outcome)


def test_half_characters_in_a_value_or_an_output_are_escaped(shared_ranks):
    """As in the name of a file that is no UTF-8: a notebook cannot hold them."""
    outcome = shared_ranks("class V:\n    def __repr__(self): return 'a\\udc80'\nprint('b\\udc80')\nV()")
    assert str(outcome).encode()
    assert "a\\udc80" in str(outcome)
    assert "b\\udc80" in str(outcome)


def test_annotations_are_evaluated_as_in_a_notebook(shared_ranks):
    source = "from dataclasses import dataclass, fields\n@dataclass\nclass P:\n    n: int\nfields(P)[0].type is int"
    assert shared_ranks(source).values[0] is True


def test_classes_and_multiprocessing_see_a_proper_main(shared_ranks):
    assert shared_ranks("class A: pass\nA.__module__, __name__").values[0] == ("__main__", "__main__")


def test_a_data_loader_with_workers_works_in_a_rank(shared_ranks):
    outcome = shared_ranks(
        textwrap.dedent("""
        from torch.utils.data import DataLoader, Dataset
        class Numbers(Dataset):
            def __len__(self): return 8
            def __getitem__(self, i): return torch.tensor(i)
        batches = []
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=2):
            dist.all_reduce(batch)
            batches.append(batch.tolist())
        batches
        """)
    )
    assert outcome.values[0] == [[0, 4, 8, 12], [16, 20, 24, 28]], str(outcome)


def test_only_some_ranks_run_the_cell(shared_ranks):
    shared_ranks("here = 'before'")
    outcome = shared_ranks("here = 'now'", only=(1, 3))
    assert outcome.ranks == (1, 3)
    assert shared_ranks("here").values == {0: "before", 1: "now", 2: "before", 3: "now"}


def test_output_is_seen_while_the_cell_runs(ranks, tmp_path):
    go = tmp_path / "go"
    seen = []

    def look(progress):
        seen.append(progress)
        if progress.stdout[0] == "early\n":
            go.touch()

    outcome = ranks(
        f"print('early')\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)", on_progress=look
    )
    assert outcome.ok
    assert seen[-1].stdout[0] == "early\n"
    assert seen[0].running == {0, 1, 2, 3}


def test_when_whoever_watches_fails_nobody_is_left_in_the_cell(ranks):
    def look(progress):
        raise OSError("the page is gone")

    with pytest.raises(OSError, match="the page is gone"):
        ranks("time.sleep(60)", on_progress=look)
    until_gone(ranks.pids())
    until(lambda: ranks.gang.refresh() or ranks.gang.state is State.BROKEN)


def test_numbers_drawn_from_numpy_differ_as_in_real_processes(shared_ranks):
    values = shared_ranks("import numpy\nfloat(numpy.random.rand())").values
    assert len(set(values.values())) == 4


def test_ranks_know_what_torchrun_tells_them(shared_ranks):
    source = "[os.environ[n] for n in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR')]"
    assert shared_ranks(source).values[2] == ["2", "2", "4", "127.0.0.1"]


def test_the_collectives_of_a_cell_are_listed_by_rank(shared_ranks):
    outcome = shared_ranks("dist.all_reduce(torch.ones(3))\ndist.broadcast(torch.ones(2, 2), 0)")
    assert [str(c) for c in outcome.collectives[1]] == ["all_reduce(3)", "broadcast(2x2)"]


def test_a_quiet_cell_stays_on_a_short_way_and_one_that_leaves_ranks_apart_does_not(ranks):
    def files_of(source):
        passed = set()

        def note(frame, event, _):
            if event == "call" and COURSE in frame.f_code.co_filename:
                passed.add(frame.f_code.co_filename.rpartition(COURSE)[2])

        sys.setprofile(note)
        try:
            outcome = ranks(source)
        finally:
            sys.setprofile(None)
        return outcome, passed

    quiet, short = files_of("x = 1")
    assert quiet.ok
    assert len(short) <= 16, f"a cell in which nothing happens goes through {sorted(short)}"
    together, same = files_of("dist.all_reduce(torch.ones(1))")
    assert together.ok
    assert same <= short | {"outcome/steady.py"}, "the ranks have issued the same"
    apart, longer = files_of("if rank == 0:\n    work = dist.all_reduce(torch.ones(1), async_op=True)")
    assert apart.diagnosis is not None
    assert "doctor/alignment.py" in longer - short
    done, still = files_of("if rank > 0:\n    dist.all_reduce(torch.ones(1))")
    assert done.ok
    assert not still <= short, "the others have caught up: until then something was open"
    assert files_of("x = 1")[1] <= short
