"""Optimizers whose step calls a closure again and again (L-BFGS): each rank decides by a loss of its own."""

from __future__ import annotations

from course_lib.doctor.lessons import taught_in
from course_lib.doctor.notes import Notes, notes_of
from course_lib.doctor.words import blocked_in, call_of, positions, rank_list, steps, verb
from course_lib.outcome.outcome import Diagnosis, Outcome
from course_lib.watch.majority import groups_of

KIND = "local_closure"
ADVICE = (
    "let the closure return the same loss on every rank: after backward(), average a detached copy of it with an "
    "all_reduce, and return that."
)
LESSONS = (9, 6)


def different_closures(outcome: Outcome) -> Diagnosis | None:
    """Ranks are apart because the closure was called a different number of times within one step of the optimizer."""
    notes = notes_of(outcome)
    if not _calls(notes):
        return None
    blocked = blocked_in(outcome)
    waits = ""
    if blocked:
        first = blocked[min(blocked)]
        ranks = [rank for rank, waiting in blocked.items() if waiting.where == first.where]
        waits = (
            f" Now {rank_list(ranks)} {verb(ranks, 'waits', 'wait')} in {call_of(first)} at {first.where}."
        )
    return Diagnosis(
        KIND,
        sentence(notes) + waits,
        (),
        positions(outcome),
        advice=ADVICE,
        lesson=taught_in(*LESSONS),
    )


def sentence(notes: Notes) -> str:
    """What such an optimizer does, and where the ranks came apart, as far as that was counted."""
    calls = _calls(notes)
    return (
        "The optimizer's step calls its closure again and again and decides by the loss that this returns, which is "
        f"that of each rank's own data{f': {calls}' if calls else ''}."
    )


def _calls(notes: Notes) -> str:
    """`in step 3, rank 0 made 8 backward passes and rank 1 made 9`; empty where the numbers are the same."""
    if len(notes) < 2:
        return ""
    for step in sorted({step for told in notes.values() for step in told.closures}):
        made = {rank: told.closures.get(step, 0) for rank, told in notes.items()}
        # A rank that is still in this step may make more.
        over = [n for r, n in made.items() if notes[r].counts.steps > step and notes[r].stepping != step]
        if over and min(over) < max(made.values()):
            return f"in step {step}, " + " and ".join(
                f"{rank_list(ranks)} made {steps(made[ranks[0]], 'backward pass')}"
                for ranks in groups_of(made)
            )
    return ""
