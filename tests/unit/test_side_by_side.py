"""Workers of one run take turns: many at once, or one alone."""

import fcntl
import threading

import pytest

from tests.side_by_side import Turns

SECONDS = 20.0


class Worker(threading.Thread):
    """Takes a turn, says so, and holds it until `let_go`."""

    def __init__(self, folder, *, alone=False):
        super().__init__(daemon=True)
        self.turns, self.alone = Turns(folder), alone
        self.has_it, self.may_go = threading.Event(), threading.Event()
        self.start()

    def run(self):
        with self.turns.taken(alone=self.alone):
            self.has_it.set()
            self.may_go.wait(SECONDS)

    def let_go(self):
        self.may_go.set()
        self.join(SECONDS)
        assert not self.is_alive()


def somebody_is_in_the_gate(folder):
    """True as soon as one waits there; it lets nobody else in until it has its turn."""
    for _ in range(100_000):
        with (folder / "gate").open("w") as gate:
            try:
                fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def test_workers_run_side_by_side(tmp_path):
    one, other = Worker(tmp_path), Worker(tmp_path)
    assert one.has_it.wait(SECONDS)
    assert other.has_it.wait(SECONDS)
    one.let_go()
    other.let_go()


def test_one_that_is_to_be_alone_waits_for_the_others_and_is_not_overtaken(tmp_path):
    one = Worker(tmp_path)
    assert one.has_it.wait(SECONDS)
    alone = Worker(tmp_path, alone=True)
    assert somebody_is_in_the_gate(tmp_path)
    late = Worker(tmp_path)
    assert not alone.has_it.is_set()
    assert not late.has_it.is_set()
    one.let_go()
    assert alone.has_it.wait(SECONDS)
    assert not late.has_it.is_set()
    alone.let_go()
    assert late.has_it.wait(SECONDS)
    late.let_go()


def test_a_turn_is_given_back_when_the_test_fails(tmp_path):
    def fails():
        with Turns(tmp_path).taken(alone=True):
            raise ValueError("the test fails")

    with pytest.raises(ValueError, match="the test fails"):
        fails()
    after = Worker(tmp_path)
    assert after.has_it.wait(SECONDS)
    after.let_go()
