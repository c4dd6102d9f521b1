"""What a learner's `wait()` waits for, read from the source above it and from what py-spy prints."""

from dataclasses import replace

import pytest

from realranks.outcome.partners import Partners
from realranks.outcome.places import Spot
from realranks.ranks.external import looks, pyspy
from realranks.ranks.external.calls import partners_of, waits_for_torch
from realranks.ranks.external.pyspy import SeenFrame, SeenThread, UnreadableError

WORK = "<torch._C._distributed_c10d.Work at 0x7f1c>"


def at_the_end(text, tmp_path, **values):
    """The innermost frame of a rank that is at the last line of this script."""
    path = tmp_path / "train.py"
    path.write_text(text.strip() + "\n", encoding="utf-8")
    spot = Spot(str(path), len(text.strip().splitlines()), "main")
    return SeenFrame(spot, {name: str(value) for name, value in values.items()})


@pytest.mark.parametrize(
    ("text", "partners"),
    [
        ("w = dist.irecv(x, src=1, tag=7)\nw.wait()", Partners("irecv", source=1, tag=7)),
        ("w = dist.isend(x, rank + 1)\nw.wait()", Partners("isend", to=3)),
        ("w = dist.isend(x, peers[0])\nw.wait()", Partners("isend", "0")),
        ("w = dist.irecv(x, 1)\nw = dist.isend(x, 0)\nw.wait()", Partners("isend", to=0)),
        ("for w in dist.batch_isend_irecv(ops):\n    w.wait()", Partners("batch_isend_irecv", "0")),
        ("works = []\nworks.append(dist.irecv(x, 1))\nfor w in works: w.wait()", Partners("irecv", source=1)),
        ("works = [dist.irecv(x, i) for i in r]\nworks += [dist.isend(x, 1)]\nworks[0].wait()", Partners("irecv", "0")),
        ("works = [dist.isend(x, 1), dist.irecv(x, 1)]\nworks.pop().wait()", Partners("isend", "0")),
        ("w = dist.all_reduce(x, async_op=True)\nw.wait()", Partners("wait", "0", (0, 1, 2, 3))),
        ("dist.all_reduce(x, group=tp, async_op=True).wait()", Partners("wait", "tp")),
        ("w = dist.all_reduce(x, group=tp, async_op=True)\nw.wait()", Partners("wait", "tp")),
        ("w = made_elsewhere()\nw.wait()", Partners("wait", "0", (0, 1, 2, 3))),
        ("def before():\n    w = dist.irecv(x, 1)\ndef main():\n    w = w or other\n    w.wait()",
         Partners("wait", "0", (0, 1, 2, 3))),
    ],
)  # fmt: skip
def test_with_whom_a_wait_has_to_do(text, partners, tmp_path):
    frame = at_the_end(text, tmp_path, w=WORK, rank=2)
    assert waits_for_torch(frame) is not None
    assert partners_of([frame], "wait", 4) == partners


@pytest.mark.parametrize("store", ["PrefixStore", "torch._C._distributed_c10d.TCPStore"])
def test_a_store_is_waited_for_with_no_rank_in_particular(store, tmp_path):
    frame = at_the_end('store.wait(["key"])', tmp_path, store=f"<{store} at 0x7f1c>")
    assert waits_for_torch(frame) is not None
    assert partners_of([frame], "wait", 4) is None


def test_a_wait_for_something_else_is_none_of_torch_s(tmp_path):
    frame = at_the_end("queue.get()", tmp_path, queue="<queue.Queue at 0x7f1c>")
    assert waits_for_torch(frame) is None
    assert waits_for_torch(replace(frame, values={})) is None


PID = 4711
IN_TORCH = SeenFrame(Spot("Work.cpp", 60, "c10d::Work::wait"), {})
ELSEWHERE = SeenFrame(Spot("lock.c", 5, "pthread_cond_wait"), {})
WAITS = 'works["left"].wait()'


@pytest.mark.parametrize(
    ("text", "values", "asleep", "native", "call"),
    [
        ("w.wait()", {"w": WORK}, True, None, "wait"),
        ("w.wait()", {"w": WORK}, False, None, "wait"),  # it spins
        (WAITS, {}, True, [IN_TORCH], "wait"),
        (WAITS, {}, True, [ELSEWHERE, IN_TORCH], "wait"),
        (WAITS, {}, True, [ELSEWHERE], None),
        (WAITS, {}, True, None, None),  # its frames of C++ cannot be read
        (WAITS, {}, False, [IN_TORCH], None),  # it runs: py-spy would have to stop it
        ("total = sum(values)", {}, True, [IN_TORCH], None),
    ],
)
def test_a_wait_without_a_frame_of_its_own(text, values, asleep, native, call, tmp_path, monkeypatch):
    """The learner's line is the innermost Python: its variables tell that it waits for torch, or frames of C++."""

    def threads_of(pid, native=False):
        assert (pid, native) == (PID, True)
        if frames is None:
            raise UnreadableError("py-spy says nothing")
        return [SeenThread(PID + 1, "other", (IN_TORCH,)), SeenThread(PID, "MainThread", tuple(frames))]

    frames = native
    monkeypatch.setattr(pyspy, "threads_of", threads_of)
    assert looks._bare_wait(PID, [at_the_end(text, tmp_path, **values)], asleep) == call


def test_a_wait_with_a_frame_of_its_own_is_not_bare(tmp_path):
    inside = SeenFrame(Spot(pyspy.__file__, 1, "wait"), {"w": WORK})
    assert looks._bare_wait(PID, [inside, at_the_end("w.wait()", tmp_path, w=WORK)], True) is None
    assert looks._bare_wait(PID, [], True) is None
