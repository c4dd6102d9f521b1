"""Optimizers whose step calls a closure again and again (L-BFGS): each rank decides by a loss of its own."""

from __future__ import annotations

from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import blocked_in, rank_list, steps
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.watch.majority import groups_of


def different_closures(outcome: Outcome) -> Diagnosis | None:
    """Detect that one step of the optimizer called its closure a different number of times on each rank."""
    notes = notes_of(outcome)
    if not calls_apart(notes):
        return None
    blocked, now = blocked_in(outcome), ""
    if blocked:
        first = blocked[min(blocked)]
        ranks = [rank for rank, waiting in blocked.items() if waiting.where == first.where]
        now = text(" Now {ranks} {ranks:waits} in {first}.", ranks=ranks, first=first)
    return diagnosis("local_closure", outcome, calls=calls_apart(notes), now=now)


def calls_apart(notes: Notes) -> str:
    """Describe a difference: `: in step 3, rank 0 made 8 backward passes and rank 1 made 9`; '' if there is none."""
    if len(notes) < 2:
        return ""
    for step in sorted({step for probe in notes.values() for step in probe.closures}):
        made = {rank: probe.closures.get(step, 0) for rank, probe in notes.items()}
        # A rank that is still in this step may make more.
        over = [n for r, n in made.items() if notes[r].counts.steps > step and notes[r].stepping != step]
        if over and min(over) < max(made.values()):
            return f": in step {step}, " + " and ".join(
                f"{rank_list(ranks)} made {steps(made[ranks[0]], 'backward pass')}"
                for ranks in groups_of(made)
            )
    return ""
