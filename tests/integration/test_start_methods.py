"""The same contract when ranks are started by `spawn`, where the system cannot fork."""

import os

import pytest

from realranks.outcome.outcome import Kind
from realranks.ranks.kernel.gang import GangError, check_size
from realranks.ranks.kernel.launcher import LaunchError, default_method
from tests.support.ranks_and_kernels import Ranks, until_gone


@pytest.fixture(scope="module")
def spawned():
    mine = Ranks(2, method="spawn")
    mine("import os, sys, time, torch, torch.distributed as dist\nrank = dist.get_rank()")
    yield mine
    mine.gang.stop()


def test_state_values_and_output_are_the_same(spawned):
    spawned("kept = rank")
    outcome = spawned("x = torch.ones(1)\ndist.all_reduce(x)\nprint('hello')\nkept + x.item()")
    assert outcome.values == {0: 2.0, 1: 3.0}
    assert outcome.stdout[1] == "hello\n"


def test_a_deadlock_is_proved_and_freed(spawned):
    outcome = spawned("if rank:\n    dist.barrier()")
    assert outcome.kind is Kind.HANG
    assert outcome.diagnosis.kind == "rank_only_collective"
    assert spawned("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[0] == 2.0


def test_classes_of_a_cell_are_mains(spawned):
    assert spawned("class A: pass\nA.__module__").values[0] == "__main__"


def test_a_program_that_a_rank_starts_finds_nothing_of_the_course_in_its_path(spawned):
    assert spawned("repr(os.environ.get('PYTHONPATH'))").values[0] == repr(os.environ.get("PYTHONPATH"))


def test_ranks_that_load_torch_themselves_need_more_memory():
    for method, needed in (("forkserver", "8000.0 GB"), ("spawn", "30000.0 GB")):
        with pytest.raises(GangError, match=needed):
            check_size(100_000, method)


def test_an_error_has_the_learners_lines(spawned):
    assert spawned("1 / 0").errors[0].where == "In [1], line 2"


def test_a_loop_that_holds_the_gil_is_ended_and_a_stopped_gang_is_gone():
    ranks = Ranks(1, method="spawn")
    outcome = ranks("sum(iter(int, 1))", timeout=0.5)
    assert outcome.kind is Kind.HANG
    assert outcome.waiting[0].where == "In [1], line 2"
    pids = ranks.pids()
    ranks.gang.stop()
    until_gone(pids)


def test_the_environment_chooses_the_method(new_kernel):
    one = new_kernel(DDP_COURSE_START_METHOD="spawn")
    assert "spawn" in one.run("machine()").value
    assert (
        one.run(
            "%%ranks 2 --expect hang\nimport torch.distributed as dist\nif dist.get_rank(): dist.barrier()"
        ).status
        == "ok"
    )
    processes = one.processes()
    one.kill()
    until_gone(processes, 2)


def test_a_method_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setenv("DDP_COURSE_START_METHOD", "teleport")
    with pytest.raises(LaunchError, match="it can be forkserver or spawn"):
        default_method()
