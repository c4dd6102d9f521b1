"""What a report without a diagnosis has to say all the same: what it is silent about, and what it has not looked at."""

from __future__ import annotations

from collections import Counter

from course_lib.doctor.drift import moments_of
from course_lib.doctor.history import made_equal_again
from course_lib.doctor.models import shared_models
from course_lib.doctor.notes import Notes, notes_of
from course_lib.doctor.nothing_distributed import not_seen
from course_lib.doctor.outside_ddp import on_purpose, stepped_outside
from course_lib.doctor.words import names_in_a_row, rank_list, steps
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.probe_notes import EpochNotes
from course_lib.ranks.status import MOST_RECORDS


def silent_about(outcome: Outcome) -> str:
    """A clause behind `No fault found on ranks 0 and 1`, such as `, but no process group was seen`; often empty."""
    notes = notes_of(outcome)
    if len(notes) < 2:
        return ""
    found = on_purpose(outcome, notes)
    for model in shared_models(notes):
        moments = moments_of(model, notes, "parameters")
        last = moments[-1].difference if moments else None
        if last is not None and made_equal_again(moments):
            found.append(f"weights that are averaged now and then differ at the end ({last.name})")
    lacking = not_seen(outcome, notes)
    # A collective, or messages, without a DDP model: a way of one's own to distribute something.
    if "no collective" in lacking and not any(told.messages for told in notes.values()):
        found.insert(0, f"{lacking} {'was' if ' and ' not in lacking else 'were'} seen")
    return f", but {'; '.join(found)}" if found else ""


def compared_weights(notes: Notes) -> list[str]:
    """At how many moments weights were compared: of DDP models, and of what optimizers step besides."""
    found = []
    of_models = sum(len(moments_of(model, notes, "parameters")) for model in shared_models(notes))
    if of_models:
        found.append(f"weights compared at {steps(of_models, 'moment')}")
    outside = sum(len(each.checks) for each in stepped_outside(notes) if each.comparable())
    if outside:
        found.append(f"parameters that no DDP model holds compared at {steps(outside, 'moment')}")
    return found


def compared_samples(notes: Notes) -> list[str]:
    """What was compared of the samples that training loaders gave: their numbers, and rows that several ranks met."""
    found = []
    compared = sum(all(e.indices for e in epochs) for epochs in _first_epochs(notes))
    if compared:
        loaders = "the training loader" if compared == 1 else f"{compared} training loaders"
        found.append(f"numbers of the samples that {loaders} drew compared between ranks")
    given = [
        {row.crc for each in told.loaders if each.trains for epoch in each.epochs for row in epoch.rows}
        for told in notes.values()
    ]
    if all(given):
        several = sum(number > 1 for number in Counter(crc for rows in given for crc in rows).values())
        met = f"{several} {'was' if several == 1 else 'were'}" if several else "none was"
        found.append(
            f"{sum(map(len, given))} rows that training loaders gave: {met} met on more than one rank"
        )
    return found


def compared_collectives(outcome: Outcome) -> list[str]:
    """How many each rank has issued of which the recorder still knows; in one order, where that holds for all ranks."""
    recorded = [outcome.recorded.get(rank, ()) for rank in outcome.ranks]
    number = len(recorded[0])
    if not number or any(len(records) != number for records in recorded):
        return []
    newest = "the newest " if number == MOST_RECORDS else ""
    orders = {tuple((each.group, each.op) for each in records) for records in recorded}
    compared = "in the same order" if len(orders) == 1 else "compared within each group"
    return [f"{newest}{steps(number, 'collective')} on every rank, {compared}"]


def without_gradient(notes: Notes) -> list[str]:
    """Parameters of DDP models that no rank has ever got a gradient for, though they require one."""
    names: dict[str, None] = {}
    for model in shared_models(notes):
        own = [told.models[0] for told in model.noted(notes).values() if told.models]
        # Where all have none, an optimizer has used them up within backward().
        if own and all(each.backwards and len(each.never) < each.parameters for each in own):
            names |= dict.fromkeys(name for name in own[0].never if all(name in each.never for each in own))
    if not names:
        return []
    return [
        f"no gradient has ever come for {steps(len(names), 'parameter')} ({names_in_a_row(list(names), 3)})"
    ]


def _first_epochs(notes: Notes) -> list[list[EpochNotes]]:
    """Of each loader with which all ranks have trained, the first epoch of every rank."""
    loaders = zip(*(told.loaders for told in notes.values()), strict=False)
    return [
        [loader.epochs[0] for loader in each]
        for each in loaders
        if all(loader.trains and loader.epochs for loader in each)
    ]


def not_looked_at(outcome: Outcome) -> list[str]:
    """What the probes could not look at, and why: one sentence each."""
    notes = notes_of(outcome)
    ranks: dict[tuple[str, str], list[int]] = {}
    for rank, told in notes.items():
        for what, why in told.unseen.items():
            ranks.setdefault((what, why), []).append(rank)
    found = [
        f"{what} were not looked at everywhere on {rank_list(who)}: {why}"
        for (what, why), who in ranks.items()
    ]
    rows = [row for told in notes.values() for check in told.outside for row in check.parameters]
    if any(row.among is not None and len(row.among) < 2 for row in rows):
        found.append("parameters of which each rank holds a piece of its own were not compared")
    if any(not (epoch.indices or epoch.rows) for epochs in _first_epochs(notes) for epoch in epochs):
        found.append("samples of a training loader that gives them no numbers (a stream) were not compared")
    return found
