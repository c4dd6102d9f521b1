"""What the doctor says of ranks that use GPUs: their waits, and the messages of CUDA and NCCL."""

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.outcome.facts import Facts
from realranks.outcome.outcome import Ending, Waiting
from realranks.outcome.places import Frame
from realranks.ranks.inside.freeing import ABORT_SECONDS
from realranks.ranks.kernel.job import Job, Run, state_of
from realranks.ranks.kernel.rebuild_group import gpu_notes
from realranks.ranks.kernel.stop_ranks import patience
from realranks.ranks.messages import Cell, JobReply
from realranks.ranks.status import RankStatus
from tests.support.outcomes import error, outcome


def late(*waiting, **fields):
    """A run out of time in which these ranks were waiting."""
    endings = {each.rank: Ending.FREED for each in waiting}
    waits = {each.rank: each for each in waiting}
    return outcome("hang", waiting=waits, endings=endings, timed_out=True, **fields)


def on_gpu(rank):
    return Waiting(rank, None, "In [1], line 3", "loss.item()", state="gpu", pause=("item()", "gpu"))


def test_a_rank_that_waits_for_its_gpu_is_neither_called_computing_nor_in_a_deadlock():
    found = diagnose(late(*map(on_gpu, range(4))))
    assert found.kind == "waits_for_gpu"
    assert "ranks 0-3 were waiting for their GPUs in item() at In [1], line 3" in found.summary
    assert "may still compute, or be in an NCCL collective" in found.summary
    assert found.culprits == ()
    assert "ranks 0-3  waiting for its GPU in item() at In [1], line 3: loss.item()" in found.evidence


def test_beside_a_rank_that_waits_for_its_gpu_one_in_a_collective_is_shown_as_such():
    other = Waiting(1, "all_reduce", "In [1], line 5", "dist.all_reduce(x)")
    found = diagnose(late(on_gpu(0), other, world_size=2))
    assert "rank 0 was waiting for its GPU" in found.summary
    assert any("rank 1  waiting in all_reduce()" in line for line in found.evidence)


def test_the_rank_that_has_issued_fewer_collectives_through_nccl_is_named():
    issued = {0: 4, 1: 4, 2: 3, 3: 4}
    facts = {rank: Facts(issued={"0": 9, "0/nccl": number}) for rank, number in issued.items()}
    found = diagnose(late(on_gpu(0), on_gpu(1), on_gpu(3), facts=facts))
    assert found.culprits == (2,)
    assert (
        "Rank 2 has issued 3 collectives through NCCL, and ranks 0, 1 and 3 have issued 4: probably the GPUs wait for "
        "rank 2." in found.summary
    )


def test_ranks_with_equal_numbers_and_different_ones_of_gloos_are_not_named():
    facts = {rank: Facts(issued={"0": rank, "0/nccl": 4}) for rank in range(4)}
    assert diagnose(late(*map(on_gpu, range(4)), facts=facts)).culprits == ()


def finished(*sequences, before=None):
    """What the learner is told of a job after which the ranks have issued so many operations."""
    run = Run(Job(Cell("")), 1, [])
    run.done = {rank: JobReply(sequence=numbers) for rank, numbers in enumerate(sequences)}
    return gpu_notes(run, before or {})


def test_a_cell_that_ends_well_and_leaves_gpus_waiting_for_each_other_is_told_so():
    (note,) = finished(
        {"0": 2, "0/nccl": 5}, {"0": 2, "0/nccl": 4}, before={0: {"0/nccl": 4}, 1: {"0/nccl": 4}}
    )
    assert "in this cell, rank 1 has issued 0 collectives through NCCL, and rank 0 has issued 1." in note


@pytest.mark.parametrize(
    "sequences",
    [
        ({"0": 2, "0/nccl": 5}, {"0": 2, "0/nccl": 5}),
        ({"0": 2}, {"0": 3}),
        ({"0/nccl": 5, "1/nccl": 2}, {"0/nccl": 5}),
    ],
)
def test_equal_numbers_gloos_and_those_of_groups_that_a_rank_is_not_in_are_no_reason(sequences):
    assert finished(*sequences) == ()


def test_what_was_open_before_is_not_told_again():
    before = {0: {"0/nccl": 5}, 1: {"0/nccl": 4}}
    assert finished({"0/nccl": 5}, {"0/nccl": 4}, before=before) == ()


@pytest.mark.parametrize(
    ("message", "kind", "says"),
    [
        (
            "ncclInvalidUsage: Duplicate GPU detected : rank 0 and rank 1",
            "two_ranks_on_one_gpu",
            "NCCL refuses",
        ),
        (
            "Multiple Ranks are using the same GPU/Partition. Set NCCL_...",
            "two_ranks_on_one_gpu",
            "NCCL refuses",
        ),
        ("CUDA error: device-side assert triggered", "gpu_context_lost", "may have been started long before"),
        ("CUDA error: an illegal memory access was encountered", "gpu_context_lost", "A kernel failed"),
        (
            "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
            "gpu_taken",
            "taken by another process",
        ),
        (
            "NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.30.7",
            "nccl_error",
            "NCCL reported",
        ),
        ("ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "nccl_without_gpu", "has no GPU"),
    ],
)
def test_the_messages_of_cuda_and_nccl_are_understood(message, kind, says):
    """As recent releases write them; read in their sources, no GPU has said them here."""
    found = diagnose(
        outcome("raises", 2, errors={0: error("RuntimeError", message)}, endings={0: Ending.RAISED})
    )
    assert found.kind == kind
    assert says in found.summary


def status(**fields):
    line = Frame("<rank cell In [1]>", 3, "<module>", "loss.item()")
    return RankStatus(0, (line,), fields.pop("waiting_in", None), 1.0, {}, {}, (), **fields)


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (status(pause=("item()", "gpu"), asleep=False), "gpu"),
        (status(pause=("item()", "gpu")), "gpu"),
        (status(asleep=False), "computing"),
        (status(waiting_in="barrier"), "blocked"),
        (status(waiting_in="barrier", asleep=False), "computing"),
        (status(pause=("time.sleep()", "sleep")), "asleep"),
        (status(), "computing"),
    ],
)
def test_a_rank_waits_for_its_gpu_whether_cuda_spins_or_sleeps(seen, state):
    assert state_of(seen) == state


class Wire:
    """One end of a rank's wire, of which only this much is asked."""

    def __init__(self, uses_gpus=False):
        self.uses_gpus = uses_gpus


@pytest.mark.parametrize("proved", [False, True])
def test_ranks_that_use_gpus_are_given_the_time_that_an_abort_takes(proved):
    on_cpu = patience([Wire(), Wire()], proved=proved)
    one_uses_its_gpu = patience([Wire(), Wire(uses_gpus=True)], proved=proved)
    assert one_uses_its_gpu.to_answer >= on_cpu.to_answer
    assert one_uses_its_gpu.to_answer > ABORT_SECONDS, "or a rank is taken for lost while it aborts"
    assert one_uses_its_gpu.to_leave > on_cpu.to_leave
    assert patience([], proved=proved) == on_cpu


def test_a_proof_is_waited_for_longer_than_a_suspicion():
    assert patience([Wire()], proved=True).to_answer > patience([Wire()], proved=False).to_answer
