"""Ranks that left a training loop though their data had not ended: told from the passes over their loaders."""

from __future__ import annotations

from collections.abc import Collection

from realranks.doctor.notes import Notes
from realranks.outcome.probe_notes import LoaderNotes, ProbeNotes


def stopped_early(notes: Notes, early: Collection[int], late: Collection[int]) -> str:
    """Return the clause that says what was left of the data of `early` when they left; empty if that is not known."""
    if not notes.keys() >= {*early, *late}:
        return ""
    pairs = [(notes[one], notes[other]) for one in early for other in late]
    if all(_broken_off(one, other) for one, other in pairs):
        return (
            "there were more batches in its loader" if len(early) == 1 else "there were more in their loaders"
        )
    if all(_fewer_epochs(one, other) for one, other in pairs):
        return f"each epoch had {only_training_loader(pairs[0][0]).length} batches on every rank"
    return ""


def evaluates(probe: ProbeNotes) -> bool:
    """Check for a rank within a pass over data with which it does not train."""
    return any(each.under_way and each.evaluates and not each.trains for each in probe.loaders)


def _broken_off(early: ProbeNotes, late: ProbeNotes) -> bool:
    """Check that the early rank's loaders had more, and that it has not left out a step of a loop that all leave."""
    loaders = [each for each in early.loaders if each.trains or not each.evaluates]
    left = any(each.trains for each in loaders) and all(each.has_more for each in loaders)
    return left and (early.counts.batches < late.counts.batches or _made_as_many(early, late))


def _fewer_epochs(early: ProbeNotes, late: ProbeNotes) -> bool:
    """Check that both ranks have ended only epochs of one length, and that the late one has begun, or begins, more."""
    mine, theirs = only_training_loader(early), only_training_loader(late)
    if evaluates(early):
        return False
    if mine.has_more or mine.length <= 0 or mine.length != theirs.length:
        return False
    begins = not theirs.has_more and theirs.passes == mine.passes and _made_as_many(early, late)
    return begins or theirs.passes > mine.passes


def _made_as_many(one: ProbeNotes, other: ProbeNotes) -> bool:
    return one.counts.forwards == other.counts.forwards


def only_training_loader(probe: ProbeNotes) -> LoaderNotes:
    """Return the rank's only training loader; an empty one if it has none, or several."""
    found = [each for each in probe.loaders if each.trains]
    return found[0] if len(found) == 1 else LoaderNotes(-1, "", False, -1)
