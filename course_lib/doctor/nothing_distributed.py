"""Runs in which nothing was distributed: every rank has trained on its own, and nothing has failed."""

from __future__ import annotations

from course_lib.doctor.notes import Notes
from course_lib.doctor.outside_ddp import moves_data, stepped_outside
from course_lib.doctor.sentences import diagnosis
from course_lib.doctor.words import steps
from course_lib.outcome.outcome import Diagnosis, Outcome


def not_seen(outcome: Outcome, notes: Notes) -> str:
    """What a distributed run has and this one had not, in a row: `no process group, no DDP model and no collective`."""
    lacking = []
    if not any(facts.all_groups() for facts in outcome.facts.values()):
        lacking.append("no process group")
    if not any(told.models for told in notes.values()):
        lacking.append("no DDP model")
    if not moves_data(outcome):
        lacking.append("no collective but barriers" if any(outcome.recorded.values()) else "no collective")
    return " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1]))) if lacking else ""


def nothing_distributed(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Optimizers have stepped on every rank, and nothing went from one rank to another."""
    numbers = [told.counts.steps for told in notes.values()]
    trained = all(numbers) and not any(told.models for told in notes.values())
    if not trained or moves_data(outcome) or any(told.messages for told in notes.values()):
        return None
    stepped = stepped_outside(notes)
    if any(each.settings_differ() for each in stepped) or not stepped:
        return None
    apart = any(each.moments()[-1].difference is not None for each in stepped)
    result = "and the ranks now have different models" if apart else "and all ranks have done the same work"
    number = steps(min(numbers), "step")
    words = {"lacking": not_seen(outcome, notes), "number": number, "result": result}
    return diagnosis("nothing_distributed", None, ranks=notes, **words)
