"""How a job has ended, in the doctor's words: who is named, of what kind it is, and what is told of the others."""

import pytest

from realranks.doctor.diagnose import diagnose as found_in
from realranks.outcome.outcome import EXIT_CUT_OFF, Ending, Waiting
from tests.support.outcomes import died, error, outcome

STOPPED = {rank: Waiting(rank, None, "In [1], line 2", "x += 1", state="stopped") for rank in (1,)}
BLOCKED = {0: Waiting(0, "barrier", "In [1], line 3", "dist.barrier()")}


def test_stop_says_who_left_and_that_variables_are_kept():
    found = found_in(outcome("raises", 3, interrupted=True, endings={1: Ending.FREED, 2: Ending.FREED}))
    assert found.kind == "interrupted"
    assert found.summary == "You pressed stop; ranks 1 and 2 left the cell, they keep their variables."


def test_stop_says_whose_end_has_cost_the_variables():
    found = found_in(outcome("raises", 3, interrupted=True, endings={1: Ending.FREED, 2: Ending.KILLED}))
    assert found.summary.startswith(
        "You pressed stop; rank 1 left the cell, rank 2 could not be freed and was ended."
    )
    assert "The variables of all ranks are lost" in found.summary


def test_stop_a_moment_too_late_is_told_as_that():
    found = found_in(outcome("raises", 2, interrupted=True))
    assert found.summary == "You pressed stop when every rank had just finished the cell."


def test_a_rank_that_a_signal_has_stopped_is_the_odd_one_and_the_others_can_only_wait():
    endings = {0: Ending.FREED, 1: Ending.FREED}
    found = found_in(outcome("hang", 2, waiting=STOPPED | BLOCKED, endings=endings))
    assert (found.kind, found.culprits) == ("rank_stopped", (1,))
    assert found.summary == "Rank 1 was stopped by a signal; rank 0 can only wait."


LOCKED = {1: Waiting(1, None, "In [1], line 2", "del model", state="locked")}


@pytest.mark.parametrize(
    ("waiting", "behind"),
    [(LOCKED, "can run Python."), (LOCKED | BLOCKED, "can run Python; rank 0 waits for it.")],
)
def test_a_rank_that_waits_with_the_gil_held_is_told_from_one_that_computes(waiting, behind):
    endings = dict.fromkeys(waiting, Ending.KILLED)
    found = found_in(
        outcome("hang", 2, waiting=waiting, endings=endings, doubts=("rank 1 cannot be looked into",))
    )
    assert (found.kind, found.culprits) == ("waits_with_the_gil", (1,))
    assert found.summary.startswith(
        "Probably a deadlock: Rank 1 waits inside of C or C++ code at In [1], line 2 and keeps Python's lock (the GIL)"
    )
    assert found.summary.endswith(behind)
    assert any(
        "with Python's lock (the GIL) held at In [1], line 2: del model" in line for line in found.evidence
    )


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (3, "rank_exited", "os._exit"),
        (-9, "rank_killed", "out-of-memory killer"),
        (-15, "rank_killed", "look for who sends that signal"),
        (-6, "rank_crashed", "a crash in C++ code"),
        (-11, "rank_crashed", "a crash in C++ code"),
        (EXIT_CUT_OFF, "rank_crashed", "descriptors that are not its own"),
    ],
)
def test_the_exit_code_says_how_a_rank_has_ended(code, kind, advice):
    found = found_in(died({2: code}, world_size=4))
    assert (found.kind, found.culprits) == (kind, (2,))
    assert advice in found.advice


def test_sys_exit_names_its_ranks_codes_and_line():
    errors = {rank: error("SystemExit", "3", "train.py, line 9") for rank in (1, 2)}
    found = found_in(outcome("raises", errors=errors, endings=dict.fromkeys((1, 2), Ending.RAISED)))
    assert (found.kind, found.culprits) == ("rank_exited", (1, 2))
    assert found.summary.startswith("Ranks 1 and 2 called sys.exit(3) at train.py, line 9.")


def test_who_has_noticed_a_death_is_told_from_who_waits_for_those():
    endings = {0: Ending.FREED, 1: Ending.FREED, 2: Ending.DIED, 3: Ending.FREED}
    waiting = {3: Waiting(3, "recv", "In [1], line 5", "dist.recv(x, 0)")}
    found = found_in(outcome("died", 4, exits={2: -9}, endings=endings, waiting=waiting))
    assert (found.kind, found.culprits) == ("rank_killed", (2,))
    assert (
        "; ranks 0 and 1 noticed at once, because the connection broke; rank 3 waits for ranks 0 and 1"
        in found.summary
    )


WORKING = {1: Waiting(1, None, "In [1], line 9", "work()", state="computing")}


def test_ranks_that_are_all_at_work_when_the_time_is_up_are_only_late():
    found = found_in(outcome("hang", 2, timed_out=True, waiting=WORKING))
    assert (found.kind, found.culprits) == ("timeout", ())
    assert found.summary == "Rank 1 did not finish in time and was stopped."
    assert "--timeout" in found.advice
    assert any("work()" in line for line in found.evidence)


def test_without_progress_who_is_at_work_is_the_odd_one_and_the_others_wait_for_it():
    found = found_in(outcome("hang", 2, timed_out=True, stalled_for=30.0, waiting=WORKING | BLOCKED))
    assert (found.kind, found.culprits) == ("no_progress", (1,))
    assert found.summary.startswith("For 30 s no rank has issued a collective")
    assert "rank 1 is computing at In [1], line 9: work()" in found.summary
    assert "rank 0 waits in barrier() at In [1], line 3 for it" in found.summary


def test_a_cell_that_raises_on_some_ranks_is_of_a_kind_of_its_own_until_somebody_waits():
    alone = found_in(
        outcome("raises", 2, what="cell", errors={1: error("KeyError")}, endings={1: Ending.RAISED})
    )
    assert (alone.kind, alone.culprits, alone.summary) == ("raised", (1,), "Rank 1 raised KeyError.")
    endings = {0: Ending.FREED, 1: Ending.RAISED}
    awaited = found_in(
        outcome("raises", 2, what="cell", errors={1: error("KeyError")}, endings=endings, waiting=BLOCKED)
    )
    assert (awaited.kind, awaited.culprits) == ("rank_raised", (1,))
    assert awaited.summary.startswith("Rank 1 raised KeyError, and rank 0 waits for it in barrier().")
