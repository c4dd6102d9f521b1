"""What is read from NCCL's flight recorder, and whom it names: on dumps that are files, and on numbers.

The files `by_hand_*` were written by hand in the format of torch 2.14.1; `recorded_*` are dumps of a machine with GPUs
(`make test-gpu`), as soon as there are any.
"""

import dataclasses
import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._C import _distributed_c10d as c10d
from torch.distributed import distributed_c10d

from realranks.doctor.diagnose import diagnose
from realranks.outcome.outcome import Collective, Ending
from realranks.outcome.places import Frame
from realranks.ranks import nccl_counts
from realranks.ranks.codec import decode, encode
from realranks.ranks.inside import flight_recorder, nccl_recorder
from realranks.ranks.kernel import deadlock
from realranks.ranks.status import GpuQueue, RankStatus
from tests.support.outcomes import outcome

DUMPS = sorted((Path(__file__).parents[1] / "nccl_dumps").glob("*.json"))


def dumps(name):
    file = Path(__file__).parents[1] / "nccl_dumps" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch):
    """The collectives that are told where NCCL's recorder holds these entries, and gloo's holds none."""
    monkeypatch.setattr(flight_recorder, "_entries", lambda stacks: [])
    return lambda entries: flight_recorder.recorded_collectives(0, of_nccl=entries)


@pytest.mark.parametrize("file", DUMPS, ids=lambda file: file.stem)
def test_every_dump_is_read_whole(file, recorded):
    for dump in json.loads(file.read_text(encoding="utf-8"))["ranks"].values():
        entries = [entry for entry in dump.get("entries", ()) if entry["profiling_name"].startswith("nccl:")]
        collectives = [entry for entry in entries if not entry["is_p2p"]]
        assert [one["seq"] for one in recorded(entries)] == [
            each["collective_seq_id"] for each in collectives
        ]
        for enqueued, completed in nccl_recorder.read_status(dump).values():
            assert -1 <= completed <= enqueued


def test_an_entry_that_stays_scheduled_is_under_way(recorded):
    told = recorded(dumps("by_hand_left_out")["ranks"]["0"]["entries"])
    assert [(one["group"], one["seq"], one["done"]) for one in told] == [
        ("0/nccl", 1, True),
        ("0/nccl", 2, True),
        ("0/nccl", 3, False),
    ]


def test_an_entry_that_is_completed_is_over_before_the_watchdog_has_retired_it(recorded):
    told = recorded(dumps("by_hand_completed_not_retired")["ranks"]["0"]["entries"])
    assert [one["done"] for one in told] == [True, True]


def test_collectives_of_both_recorders_are_told_in_the_order_in_which_they_were_issued(monkeypatch):
    of_nccl = dumps("by_hand_left_out")["ranks"]["0"]["entries"]
    gloos = {
        **of_nccl[0],
        "profiling_name": "gloo:barrier",
        "time_created_ns": of_nccl[1]["time_created_ns"] + 1,
    }
    monkeypatch.setattr(flight_recorder, "_entries", lambda stacks: [gloos])
    told = flight_recorder.recorded_collectives(0, of_nccl=of_nccl)
    assert [(one["group"], one["seq"]) for one in told] == [
        ("0/nccl", 1),
        ("0/nccl", 2),
        ("0", 1),
        ("0/nccl", 3),
    ]


class Backend:
    """Stands for NCCL's backend of a group: it cannot be had without a GPU."""

    def __init__(self, uid, issued):
        self.uid, self.issued = uid, issued

    def name(self):
        return "nccl"

    def _get_sequence_number_for_group(self):
        return self.issued


class Group:
    """A group of which CUDA tensors go through that backend."""

    _device_types = ("cuda",)

    def _get_backend(self, device):
        return Backend(0, 3)


@pytest.fixture
def rank_0(monkeypatch):
    """As if this process were rank 0 of the dump: CUDA is in use, and the group `0` has NCCL's backend 0."""
    dump = dumps("by_hand_left_out")["ranks"]["0"]
    asked = []

    def dumped(*how):
        asked.append(how)
        return pickle.dumps(dump if how[0] else {**dump, "entries": []})

    world = SimpleNamespace(pg_names={Group(): "0"})
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed_c10d, "_world", world)
    monkeypatch.setattr(c10d, "_dump_nccl_trace", dumped, raising=False)
    return asked


def test_the_status_is_read_without_asking_for_collectives(rank_0):
    assert nccl_recorder.read_recorder(False) == ({"0": GpuQueue(issued=3, enqueued=3, completed=2)}, [])
    assert rank_0 == [(False, False, False)], "the cheap way, which asks CUDA for nothing"


def test_the_entries_are_read_where_everything_is_wanted(rank_0):
    queues, entries = nccl_recorder.read_recorder(True)
    assert queues
    assert len(entries) == 3


def test_a_recorder_that_cannot_be_read_is_told_as_empty(rank_0, monkeypatch):
    def broken(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(c10d, "_dump_nccl_trace", broken)
    assert nccl_recorder.read_recorder(True) == ({}, [])


def test_a_rank_that_has_not_used_cuda_asks_nothing(rank_0, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert nccl_recorder.read_recorder(True) == ({}, [])
    assert rank_0 == []


# -- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("issued", "enqueued", "completed", "number"),
    [
        (3, 3, 2, 3),  # the last collective is not done
        (3, 3, 0, 3),  # nor are those before it
        (1, 1, -1, 1),  # nothing was ever done
        (3, 3, 3, None),  # all is done
        (0, -1, -1, None),  # nothing was issued
        (3, 2, 2, None),  # the third is only being issued: its communicator is being created
        (2, 3, 2, None),  # a send that was numbered 3 came last
        (5, 2, 1, None),  # and so did this one
    ],
)
def test_the_last_collective_is_open_where_it_is_issued_enqueued_and_not_completed(
    issued, enqueued, completed, number
):
    assert nccl_counts.open_number(GpuQueue(issued, enqueued, completed)) == number


@pytest.mark.parametrize(
    ("issued", "absent"),
    [
        ({0: 3, 1: 2, 2: 3}, (1,)),
        ({0: 3, 1: 0, 2: 2}, (1, 2)),
        ({0: 3, 1: 3, 2: 4}, ()),  # all have come, one of them has gone on
        ({0: 3, 1: None, 2: 3}, ()),  # who does not tell is not named
        ({0: 3, 2: 3}, ()),
        ({0: 3, 1: 3, 2: 3, 3: 0}, ()),  # rank 3 is no member
    ],
)
def test_members_that_have_issued_fewer_are_absent(issued, absent):
    assert nccl_counts.absent(3, 0, (0, 1, 2), issued) == absent


LINE = Frame("<rank cell In [1]>", 3, "<module>", "x.item()")


def status(rank, issued, queue=None, **fields):
    """A rank in `x.item()`, awake: CUDA spins."""
    at = {"stack": (LINE,), "pause": ("item()", "gpu"), "asleep": False, "cpu_seconds": 1.0, **fields}
    return RankStatus(
        rank=rank,
        waiting_in=None,
        sequence={"0": 0, "0/nccl": issued},
        members={"0": (0, 1)},
        records=at.pop("records", ()),
        queues={"0": queue} if queue else {},
        uses_gpus=True,
        **at,
    )


def gone(rank, issued):
    return status(rank, issued, GpuQueue(issued, issued, issued), stack=(), pause=None, asleep=True)


WAITS = status(0, 3, GpuQueue(3, 3, 2))


def judged(*statuses, running=(0,)):
    before = {one.rank: one for one in statuses}
    now = {one.rank: dataclasses.replace(one, cpu_seconds=2.0) if one.pause else one for one in statuses}
    return deadlock.judge(before, now, frozenset(running))


def test_a_gpu_that_lacks_a_rank_is_probably_a_deadlock_and_never_a_proof():
    still = judged(WAITS, gone(1, 2))
    assert still.waiting[0].missing == (1,)
    assert still.waiting[0].state == "gpu"
    assert not still.proved
    assert not still.may_resume
    assert still.doubts == ("whether the GPU of rank 0 waits for rank 1 or still computes is not told",)


def test_a_gpu_that_lacks_nobody_may_still_compute():
    assert judged(WAITS, gone(1, 3)) is None, "CUDA spins: for all that is known, the rank makes progress"
    asleep = judged(dataclasses.replace(WAITS, asleep=False), gone(1, 3))
    assert asleep is None


def test_no_record_no_verdict():
    assert judged(status(0, 3), gone(1, 2)) is None
    silent = dataclasses.replace(gone(1, 2), sequence={})
    assert judged(WAITS, silent) is None


def test_a_rank_that_still_runs_may_come():
    computes = status(1, 2, GpuQueue(2, 2, 2), pause=None)
    assert judged(WAITS, computes, running=(0, 1)) is None


def recorded_status(rank, name="by_hand_left_out"):
    """A rank of a dump as it tells of itself in detail."""
    told = dumps(name)
    records = flight_recorder.recorded_collectives(0, of_nccl=told["ranks"][str(rank)]["entries"])
    ((enqueued, completed),) = nccl_recorder.read_status(told["ranks"][str(rank)]).values()
    queue = GpuQueue(told["issued"][str(rank)], enqueued, completed)
    return status(rank, queue.issued, queue, records=tuple(map(Collective.from_record, records)))


def test_with_the_entries_the_collective_is_named_too(monkeypatch):
    monkeypatch.setattr(flight_recorder, "_entries", lambda stacks: [])
    statuses = {rank: recorded_status(rank) for rank in (0, 1)}
    waiting = deadlock.describe(statuses[0], statuses, "gpu")
    assert waiting.missing == (1,)
    assert (waiting.collective.op, waiting.collective.seq) == ("all_reduce", 3)
    hung = outcome(
        "hang", world_size=2, waiting={0: waiting}, endings={0: Ending.FREED}, timed_out=True, facts={}
    )
    found = diagnose(hung)
    assert found.kind == "waits_for_gpu"
    assert found.culprits == (1,)
    assert (
        "Rank 0, whose GPU has not finished all_reduce(4), waits in item() at In [1], line 3" in found.summary
    )
    assert "rank 1 has never issued that collective" in found.summary


def test_a_send_that_came_last_names_nobody(monkeypatch):
    monkeypatch.setattr(flight_recorder, "_entries", lambda stacks: [])
    statuses = {rank: recorded_status(rank, "by_hand_send_last") for rank in (0, 1)}
    assert deadlock.describe(statuses[0], statuses, "gpu").missing == ()


def test_the_numbers_come_to_the_kernel_as_they_are():
    assert decode(RankStatus, json.loads(json.dumps(encode(WAITS)))) == WAITS
