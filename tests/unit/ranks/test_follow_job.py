"""How long standing still means nothing: ranks that are still finding each other."""

import os
from types import SimpleNamespace

import pytest

from realranks.ranks.kernel.deadlock import Standstill
from realranks.ranks.kernel.follow_job import DeadlockWatch
from realranks.ranks.kernel.stop_ranks import machine_is_busy


def grace(stack: list[str], *, done: set[int] = frozenset(), running: int = 2) -> float:
    watch = DeadlockWatch.__new__(DeadlockWatch)
    watch.run = SimpleNamespace(done=done, running=lambda: [None] * running)
    status = SimpleNamespace(stack=[SimpleNamespace(function=name) for name in stack])
    return watch._grace({1: status})


@pytest.fixture(params=[0.1, 1000.0], ids=["quiet", "busy"])
def busy(request, monkeypatch) -> bool:
    monkeypatch.setattr(os, "getloadavg", lambda: (request.param, 0.0, 0.0))
    return request.param > 1


def test_looking_for_a_store_that_may_still_come_is_given_time(busy):
    stack = ["<module>", "init_process_group", "_create_c10d_store"]
    assert grace(stack) == 10.0
    assert grace(stack, done={0}) == (3.0 if busy else 0.0)
    assert grace(stack, running=1) == (3.0 if busy else 0.0), "all others have left"


@pytest.mark.parametrize("function", ["init_process_group", "new_group"])
def test_making_a_group_is_given_time_on_a_busy_machine(busy, function):
    assert grace(["<module>", function, "_new_process_group_helper"]) == (3.0 if busy else 0.0)


@pytest.mark.parametrize(("load", "busy"), [(0.0, False), (12.0, False), (12.1, True), (100.0, True)])
def test_a_machine_is_busy_when_half_as_much_again_wants_to_run_as_it_has_cores(load, busy, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 1000.0))
    assert machine_is_busy() is busy


def test_a_collective_is_given_none(busy):
    assert grace(["<module>", "all_reduce"]) == 0.0


def test_the_look_that_proves_is_held_against_one_of_some_time_ago():
    """It comes at once after the last: in a millisecond no thread of gloo's has its turns."""
    watch = DeadlockWatch.__new__(DeadlockWatch)
    watch.run = SimpleNamespace(still=None, seconds=lambda: 1.0)
    watch.thorough, watch.detailed_at = False, 0.0
    earlier = {0: "a status"}
    assert not watch._stands_still(Standstill({}), False, earlier)
    assert watch.thorough
    assert watch.before is earlier
    assert watch._stands_still(Standstill({}), True, earlier), "the thorough status has found the same"
