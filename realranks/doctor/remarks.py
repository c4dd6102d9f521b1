"""Remarks of a report without a diagnosis: what it is silent about, and what it has not looked at."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

from realranks.doctor.drift import moments_of
from realranks.doctor.history import made_equal_again
from realranks.doctor.models import shared_models
from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.nothing_distributed import not_seen
from realranks.doctor.outside_ddp import on_purpose, stepped_outside
from realranks.doctor.words import names_in_a_row, rank_list, steps
from realranks.outcome.outcome import Outcome
from realranks.outcome.probe_notes import MAX_ROWS, EpochNotes
from realranks.ranks.status import MAX_RECORDS


def silent_about(outcome: Outcome) -> str:
    """Return a clause to follow `No fault found on ranks 0 and 1`, such as `, but no process group was seen`, or ''."""
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
    if "no collective" in lacking and not any(probe.messages for probe in notes.values()):
        found.insert(0, f"{lacking} {'was' if ' and ' not in lacking else 'were'} seen")
    return f", but {'; '.join(found)}" if found else ""


def compared_weights(notes: Notes) -> list[str]:
    """Count the moments at which weights were compared: of DDP models, and outside of them."""
    found = []
    of_models = sum(len(moments_of(model, notes, "parameters")) for model in shared_models(notes))
    if of_models:
        found.append(f"weights compared at {steps(of_models, 'moment')}")
    outside = sum(len(each.checks) for each in stepped_outside(notes) if each.comparable())
    if outside:
        found.append(f"parameters that no DDP model holds compared at {steps(outside, 'moment')}")
    return found


def compared_samples(outcome: Outcome) -> list[str]:
    """Count what loaders gave in their first epoch, and what of it several ranks received.

    Only within one epoch: in the next one a sample may well go to another rank.
    """
    found = []
    notes = notes_of(outcome)
    alone = not any(
        r.op != "barrier" and not r.stage for rank in notes for r in outcome.recorded.get(rank, ())
    )
    for name, loaders in (
        ("epoch 0", _first_epochs(notes)),
        ("evaluation", _first_epochs(notes, "evaluates")),
    ):
        for number, epochs in enumerate(loaders):
            which = f" of loader {number}" if len(loaders) > 1 else ""
            if not all(epoch.ended or epoch.counted for epoch in epochs):
                which += ", as far as it was drawn"  # a library may draw a batch ahead that nobody trains on
            by_rank = [{row.crc for row in epoch.rows} for epoch in epochs]
            begun = any(len(epoch.rows) >= MAX_ROWS for epoch in epochs)
            rows = f"{'the first ' if begun else ''}{dealt}" if (dealt := _dealt(by_rank, "rows")) else ""
            numbers = _dealt([set(epoch.indices) for epoch in epochs], "numbers of samples")
            if rows and rows == numbers.replace("numbers of samples", "rows"):
                numbers = ""
            different = len(set().union(*by_rank))
            if rows and name == "evaluation" and len(epochs[0].rows) < different < sum(map(len, by_rank)):
                rows += (
                    " (a sum or a mean over the ranks counts these more than once, unless they are left out)"
                )
            if rows and name == "evaluation" and different == sum(map(len, by_rank)) and alone:
                rows += " (no collective of the script's own has put the ranks' results together)"
            if told := "; ".join(filter(None, [rows, numbers])):
                found.append(f"{name}{which}: {told}")
    return found


def _dealt(ranks: Sequence[set[int]], what: str) -> str:
    """Return `512 rows, each on one rank`; empty where a rank has none that are known."""
    if not all(ranks):
        return ""
    came = Counter(itertools.chain(*ranks))
    several = sum(number > 1 for number in came.values())
    return f"{len(came)} {what}, {f'{several} of them on several ranks' if several else 'each on one rank'}"


def compared_inputs(notes: Notes) -> list[str]:
    """Say of a script that trains without a loader whether its ranks call their models with the same inputs."""
    if any(loader.trains for probe in notes.values() for loader in probe.loaders):
        return []
    found = []
    for model in shared_models(notes):
        inputs = [tuple(each.inputs) for probe in model.noted(notes).values() for each in probe.models]
        if len(inputs) == len(model.numbers) and all(inputs):
            found.append(f"the first inputs{model.label and f' of {model.label.strip()}'}: {_alike(inputs)}")
    return found


def _alike(of_ranks: Sequence[Hashable]) -> str:
    kinds = {len(of_ranks): "different on each rank", 1: "the same on all ranks"}
    return kinds.get(len(set(of_ranks)), "the same on some ranks")


def random_numbers(notes: Notes) -> list[str]:
    """Say whether ranks that draw random numbers between their steps draw the same ones."""
    found = []
    for name in ("torch", "numpy.random"):
        drawn = [tuple(probe.draws.draws.get(name, ())) for probe in notes.values()]
        if all(any(draw.numbers for draw in draws) for draws in drawn):
            found.append(f"random numbers between the steps ({name}'s generator): {_alike(drawn)}")
    return found


def compared_collectives(outcome: Outcome) -> list[str]:
    """Count the collectives each rank has issued that the recorder still has, and say whether their order agrees."""
    recorded = [outcome.recorded.get(rank, ()) for rank in outcome.ranks]
    number = len(recorded[0])
    if not number or any(len(records) != number for records in recorded):
        return []
    newest = "the newest " if number == MAX_RECORDS else ""
    orders = {tuple((each.group, each.op) for each in records) for records in recorded}
    compared = "in the same order" if len(orders) == 1 else "compared within each group"
    return [f"{newest}{steps(number, 'collective')} on every rank, {compared}"]


def without_gradient(notes: Notes) -> list[str]:
    """List parameters of DDP models that require a gradient and never got one on any rank."""
    names: dict[str, None] = {}
    for model in shared_models(notes):
        own = [probe.models[0] for probe in model.noted(notes).values() if probe.models]
        # Where all have none, an optimizer has used them up within backward().
        if own and all(each.backwards and len(each.never) < each.parameters for each in own):
            names |= dict.fromkeys(name for name in own[0].never if all(name in each.never for each in own))
    if not names:
        return []
    return [
        f"no gradient has ever come for {steps(len(names), 'parameter')} ({names_in_a_row(list(names), 3)})"
    ]


def _first_epochs(notes: Notes, use: Literal["trains", "evaluates"] = "trains") -> list[list[EpochNotes]]:
    """Return the first epoch of every rank, for each loader with which all ranks have trained, or evaluated."""
    loaders = zip(*(probe.loaders for probe in notes.values()), strict=False)
    return [
        [loader.epochs[0] for loader in each]
        for each in loaders
        if all(getattr(loader, use) and loader.epochs for loader in each)
        and (use == "trains" or not any(loader.trains for loader in each))
    ]


def not_looked_at(outcome: Outcome) -> list[str]:
    """List what the probes could not compare and why, in one sentence each."""
    notes = notes_of(outcome)
    ranks: dict[tuple[str, str], list[int]] = {}
    for rank, probe in notes.items():
        for what, why in probe.unseen.items():
            ranks.setdefault((what, why), []).append(rank)
    found = [
        f"{what} were not looked at everywhere on {rank_list(who)}: {why}"
        for (what, why), who in ranks.items()
    ]
    rows = [row for probe in notes.values() for check in probe.outside for row in check.parameters]
    if any(row.among is not None and len(row.among) < 2 for row in rows):
        found.append("parameters of which each rank holds a piece of its own were not compared")
    if any(not (epoch.indices or epoch.rows) for epochs in _first_epochs(notes) for epoch in epochs):
        found.append("samples of a training loader that gives them no numbers (a stream) were not compared")
    return found
