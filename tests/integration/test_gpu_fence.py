"""The wait at the end of a cell for what the GPU was given: with stand-ins for CUDA's events, and on real ranks.

The ranks of the last tests have a stand-in for CUDA, which their first cell puts in the place of torch's. What only a
GPU can tell: that a collective which lacks a rank keeps the event of the current stream from being reached.
"""

import sys
import threading
import time

import pytest

from realranks.outcome.outcome import Kind
from realranks.ranks.inside import gpu_fence
from tests.support.ranks_and_kernels import Ranks


@pytest.fixture
def fence(monkeypatch):
    monkeypatch.setattr(gpu_fence, "FENCE_SECONDS", 0.05)
    return gpu_fence


def nothing_else():
    """No other stream has anything to do."""


def test_work_that_is_done_is_not_waited_for(fence):
    assert fence.finished(lambda: True, nothing_else)
    assert not fence.is_waiting()


def test_work_that_comes_to_its_end_is_waited_for_and_the_wait_is_seen(fence):
    answers, seen = iter([False, False, False, True]), []

    def query():
        seen.append(fence.is_waiting())
        return next(answers)

    assert fence.finished(query, lambda: seen.append(fence.is_waiting()))
    assert seen == [True] * 5
    assert not fence.is_waiting()


def test_work_that_does_not_end_is_left_alone_after_a_while(fence):
    started = time.perf_counter()
    assert not fence.finished(lambda: False, nothing_else)
    assert time.perf_counter() - started >= 0.05
    assert not fence.is_waiting()


def test_work_on_another_stream_is_waited_for_and_asked_after_once(fence):
    """Each cell waits for what an earlier one has left, then for its own; one thread at a time is in CUDA's call."""
    ends, asked = threading.Event(), []

    def synchronize(cell):
        asked.append(cell)
        assert ends.wait(60)

    assert not fence.finished(lambda: True, lambda: synchronize(1))
    assert not fence.finished(lambda: True, lambda: synchronize(2))
    assert asked == [1], "the second cell waits for what the first has asked"
    ends.set()
    fence.FENCE_SECONDS = 60.0
    assert fence.finished(lambda: True, lambda: synchronize(3))
    assert asked == [1, 3]


@pytest.mark.parametrize("on", ["the current stream", "another stream"])
def test_an_error_of_cudas_is_raised_and_the_wait_is_over(fence, on):
    def fails():
        raise RuntimeError("CUDA error: device-side assert triggered")

    calls = (fails, nothing_else) if on == "the current stream" else (lambda: True, fails)
    with pytest.raises(RuntimeError, match="device-side assert"):
        fence.finished(*calls)
    assert not fence.is_waiting()
    assert fence.finished(lambda: True, nothing_else), "an error is told once"


@pytest.mark.parametrize("torch", [None, "without CUDA"])
def test_where_cuda_is_not_in_use_nothing_is_asked(fence, monkeypatch, torch):
    class Cuda:
        is_initialized = staticmethod(lambda: False)

    class Torch:
        cuda = Cuda  # neither Event nor anything else

    monkeypatch.setitem(sys.modules, "torch", Torch if torch else None)
    assert fence.finished_on_gpu()


def test_a_graph_that_is_being_captured_is_left_alone(fence, monkeypatch):
    class Cuda:
        is_initialized = staticmethod(lambda: True)
        is_current_stream_capturing = staticmethod(lambda: True)

    class Torch:
        cuda = Cuda

    monkeypatch.setitem(sys.modules, "torch", Torch)
    assert fence.finished_on_gpu()


_STAND_IN = """
import time, torch
from realranks.ranks.inside import gpu_fence
gpu_fence.FENCE_SECONDS = 0.5
class Event:
    ends = 0.0
    def record(self):
        self.since = time.monotonic()
    def query(self):
        if isinstance(Event.ends, Exception):
            raise Event.ends
        return time.monotonic() - self.since >= Event.ends
torch.cuda.is_initialized = lambda: True
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.Event = Event
torch.cuda.current_device = lambda: 0
torch.cuda.synchronize = lambda gpu: time.sleep(others)
others = 0.0  # how long other streams have work
import torch.distributed as dist
rank = dist.get_rank()
"""


@pytest.fixture(scope="module")
def with_stand_in():
    ranks = Ranks(2)
    assert ranks(_STAND_IN).ok
    yield ranks
    ranks.gang.stop()


def test_a_cell_ends_when_its_gpu_has_finished(with_stand_in):
    told = with_stand_in("Event.ends = 0.2\nrank")
    assert told.values == {0: 0, 1: 1}
    assert told.notes == ()
    assert told.seconds >= 0.2


def test_a_cell_that_leaves_its_gpu_at_work_says_so_and_keeps_its_values(with_stand_in):
    told = with_stand_in("Event.ends = 60.0 if rank else 0.0\nrank")
    assert told.kind is Kind.OK
    assert told.values == {0: 0, 1: 1}
    (note,) = told.notes
    assert note.startswith("When this cell ended, the GPU of rank 1 had not finished its work")
    assert with_stand_in("Event.ends = 0.0").notes == ()


def test_work_that_is_left_on_another_stream_is_told(with_stand_in):
    told = with_stand_in("others = 1.0 if rank else 0.0")
    (note,) = told.notes
    assert note.startswith("When this cell ended, the GPU of rank 1 had not finished its work")
    assert with_stand_in("others, gpu_fence.FENCE_SECONDS = 0.0, 60.0").notes == (), "it is waited for"
    with_stand_in("gpu_fence.FENCE_SECONDS = 0.5")


def test_nothing_is_said_of_a_gpu_that_may_have_waited_for_a_rank_which_came_later(with_stand_in):
    told = with_stand_in("Event.ends = 0.0 if rank else 60.0\ntime.sleep(1.0 * rank)")
    assert told.ok
    assert told.notes == ()
    with_stand_in("Event.ends = 0.0")


def test_the_wait_can_be_interrupted(with_stand_in):
    with_stand_in("Event.ends = 0.0\ngpu_fence.FENCE_SECONDS = 60.0")
    told = with_stand_in("Event.ends = 60.0", timeout=1.0)
    assert told.kind is Kind.HANG
    assert {rank: (waiting.state, waiting.pause) for rank, waiting in told.waiting.items()} == dict.fromkeys(
        (0, 1), ("gpu", (gpu_fence.AT_END, "gpu"))
    )
    assert "waiting for their GPUs in the check at the end of the cell" in told.diagnosis.summary
    assert with_stand_in("gpu_fence.FENCE_SECONDS, Event.ends = 0.5, 0.0\nrank").values == {0: 0, 1: 1}


def test_an_error_of_the_gpus_belongs_to_the_cell_that_caused_it(with_stand_in):
    told = with_stand_in("Event.ends = RuntimeError('CUDA error: device-side assert triggered')")
    assert told.kind is Kind.RAISES
    assert "device-side assert" in told.errors[0].message
    with_stand_in("Event.ends = 0.0")


_LETS_PASS = """
from realranks.ranks.inside import groups, nccl_recorder
groups.only_through_sockets = lambda: False
def entries(stacks):
    told = dict(
        process_group=("0", "default_pg"), collective_seq_id=1, time_created_ns=issued, retired=True, thread_id="1",
        profiling_name="nccl:broadcast" if rank else "nccl:all_reduce", input_sizes=[[4]], input_dtypes=["Float"],
    )
    line = dict(filename=entries.__code__.co_filename, name="<module>", line=1)
    return [{**told, "frames": [line]} if stacks else told]
nccl_recorder.entries = entries
"""


def test_collectives_that_do_not_fit_and_that_nccl_has_let_pass_are_told(with_stand_in):
    """all_reduce on one rank and broadcast on another: NCCL ends both without an error, with wrong numbers."""
    with_stand_in(_LETS_PASS + "issued = 0")
    assert with_stand_in("rank").diagnosis is None, "what an earlier cell has issued is no matter of this one"
    told = with_stand_in("issued = time.time_ns()\nrank")
    assert told.values == {0: 0, 1: 1}
    assert told.diagnosis.kind == "different_collectives"
    assert told.diagnosis.summary.startswith(
        "Nobody complained, but the ranks met in all_reduce() (4 float32) at"
    ), told.diagnosis.summary
    assert "unknown" not in told.diagnosis.summary
    with_stand_in("nccl_recorder.entries = lambda stacks: []")


_LEAVES_OUT = """
from realranks.ranks.inside import groups, nccl_recorder
from realranks.ranks.status import GpuQueue
numbers = groups.sequence_numbers
groups.sequence_numbers = lambda: {**numbers(), "0/nccl": 1 - rank}
groups.only_through_sockets = lambda: False
nccl_recorder.queues = lambda: {"0": GpuQueue(0, -1, -1) if rank else GpuQueue(1, 1, -1)}
nccl_recorder.entries = lambda stacks: []
gpu_fence.FENCE_SECONDS = 60.0
Event.ends = 0.0 if rank else 60.0
"""


def test_a_gpu_that_waits_for_a_rank_which_has_left_is_probably_a_deadlock(with_stand_in, monkeypatch):
    """From what NCCL's recorder tells on a rank to the sentence, with a recorder that says so."""
    monkeypatch.setattr("realranks.ranks.kernel.job.PROBABLE_SECONDS", 0.5)
    told = with_stand_in(_LEAVES_OUT, timeout=5.0)
    assert told.kind is Kind.HANG
    assert not told.proved
    assert told.doubts == ("whether the GPU of rank 0 waits for rank 1 or still computes is not told",)
    assert told.diagnosis.kind == "waits_for_gpu"
    assert told.diagnosis.culprits == (1,)
    assert told.diagnosis.summary == (
        "Probably a deadlock: Rank 0, whose GPU has not finished a collective, waits in the check at the end of the "
        "cell: rank 1 has never issued that collective."
    )
