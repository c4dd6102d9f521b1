"""How long a rank that does not end by itself is asked: until it must have heard, on a busy machine, too."""

from types import SimpleNamespace

import pytest

from realranks.outcome.outcome import Waiting
from realranks.ranks.kernel import stop_ranks
from realranks.ranks.kernel.job import Job, Run
from realranks.ranks.messages import Cell


class DeafRank:
    """A rank that hears nothing; it uses so many processor seconds from one question to the next."""

    rank, uses_gpus, alive = 0, False, True

    def __init__(self, seconds):
        self.seconds, self.used, self.asked = seconds, 0.0, 0

    def interrupt(self):
        self.asked += 1
        self.used += self.seconds

    def kill(self):
        self.alive = False

    def processor_seconds(self):
        return self.used

    def is_stopped(self):
        return False

    def take(self, *_):
        return None


@pytest.mark.parametrize(
    ("busy", "seconds", "asked"), [(True, 0.0, 9), (True, 0.3, 7), (True, 1.0, 4), (False, 0.0, 4)]
)
def test_a_rank_is_asked_longer_on_a_busy_machine_unless_it_must_have_heard(
    busy, seconds, asked, monkeypatch
):
    monkeypatch.setattr(stop_ranks, "machine_is_busy", lambda: busy)
    monkeypatch.setattr(stop_ranks, "GRACE_SECONDS", 0.0)
    rank = DeafRank(seconds)
    run = Run(Job(Cell(source="", label="1", first_line=1)), 1, [rank])
    run.waiting[0] = Waiting(0, None, "", "", state="silent")
    wires = SimpleNamespace(pump=lambda _: None, ask=lambda *_, **__: {})
    stop_ranks.end(wires, run, "the time is up")
    assert (rank.asked, rank.alive, run.killed) == (asked, False, {0})
