"""Runs in which nothing was distributed: every rank has trained on its own, and nothing has failed."""

from __future__ import annotations

from realranks.doctor.notes import Notes
from realranks.doctor.outside_ddp import moves_data, stepped_outside
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import steps
from realranks.outcome.outcome import Diagnosis, Outcome


def not_seen(outcome: Outcome, notes: Notes) -> str:
    """List which parts of a distributed run are missing: `no process group, no DDP model and no collective`."""
    lacking = []
    if not any(facts.all_groups() for facts in outcome.facts.values()):
        lacking.append("no process group")
    if not any(probe.models for probe in notes.values()):
        lacking.append("no DDP model")
    if not moves_data(outcome):
        lacking.append("no collective but barriers" if any(outcome.recorded.values()) else "no collective")
    return " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1]))) if lacking else ""


def nothing_distributed(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect that optimizers stepped on every rank although nothing was sent between ranks."""
    numbers = [probe.counts.steps for probe in notes.values()]
    trained = all(numbers) and not any(probe.models for probe in notes.values())
    if not trained or moves_data(outcome) or any(probe.messages for probe in notes.values()):
        return None
    stepped = stepped_outside(notes)
    if any(each.settings_differ() for each in stepped) or not stepped:
        return None
    apart = any(each.moments()[-1].difference is not None for each in stepped)
    result = "and the ranks now have different models" if apart else "and all ranks have done the same work"
    number = steps(min(numbers), "step")
    words = {"lacking": not_seen(outcome, notes), "number": number, "result": result}
    return diagnosis("nothing_distributed", None, ranks=notes, **words)
