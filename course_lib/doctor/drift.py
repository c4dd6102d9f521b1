"""Silent faults: a script that ends well, and whose ranks have drifted apart; and errors that were swallowed.

Read from what the probe has noted (`watch.probe`); a run that was not watched has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from course_lib.doctor.data import data_fault
from course_lib.doctor.drift_causes import cause_of, unlike_settings
from course_lib.doctor.errors import swallowed_complaint
from course_lib.doctor.history import END, Difference, Moment, lasting, moment, ordered
from course_lib.doctor.mismatches import mismatch_in_passing
from course_lib.doctor.models import SharedModel, shared_models
from course_lib.doctor.notes import Notes, notes_of
from course_lib.doctor.nothing_distributed import nothing_distributed
from course_lib.doctor.outside_ddp import parameters_outside
from course_lib.doctor.roots import different_roots
from course_lib.doctor.samples import sample_fault
from course_lib.doctor.schedules import schedule_fault
from course_lib.doctor.sentences import diagnosis
from course_lib.doctor.training import too_many_threads, training_fault
from course_lib.doctor.words import (
    lines_of,
    names_in_a_row,
    steps,
    who_differs,
)
from course_lib.outcome.outcome import Diagnosis, Kind, Outcome
from course_lib.outcome.probe_notes import Digest, Failure, ProbeNotes


def swallowed_error(outcome: Outcome) -> Diagnosis | None:
    """A forward or backward pass raised on a rank, the script caught it and went on, and now the ranks do not fit."""
    if outcome.kind not in (Kind.HANG, Kind.RAISES, Kind.DIED):
        return None
    first_failures = {rank: _caught(outcome, rank, told) for rank, told in notes_of(outcome).items()}
    swallowed = {rank: failure for rank, failure in first_failures.items() if failure is not None}
    if not swallowed or len(swallowed) == len(outcome.ranks):
        return None
    first = next(iter(swallowed.values()))
    memory = "memory" in first.message.lower() or first.type in ("MemoryError", "OutOfMemoryError")
    what = f"ran out of memory ({first.type})" if memory else f"got {first.type}"
    others = [rank for rank in outcome.ranks if rank not in swallowed]
    words = {"got": what, "call": first.what, "where": first.where, "others": others}
    return diagnosis("swallowed_error", outcome, swallowed, ranks=swallowed, **words)


def _caught(outcome: Outcome, rank: int, told: ProbeNotes) -> Failure | None:
    """The first error that the script of this rank has caught; None where the only one is that which ended the rank."""
    if not told.failures or "closed by peer" in told.failures[0].message.lower():
        return None
    error = outcome.errors.get(rank)
    only = len(told.failures) == 1
    return None if only and error is not None and told.failures[0].type == error.type else told.failures[0]


def silent_fault(outcome: Outcome) -> Diagnosis | None:
    """What is wrong though every rank has ended well; None when nothing is, or the run was not watched.

    What is only worth knowing is told where there is nothing worse.
    """
    found = swallowed_complaint(outcome) or mismatch_in_passing(outcome) or different_roots(outcome)
    if found is not None:
        return found
    notes = notes_of(outcome)
    if len(notes) < 2:
        return None
    worth_knowing = None
    for rule in _RULES:
        found = rule(outcome, notes)
        if found is not None and not found.warning:
            return found
        worth_knowing = worth_knowing or found
    return worth_knowing


def _data(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    found, more = data_fault(notes), sample_fault(notes)
    return more if found is None or (found.warning and more is not None and not more.warning) else found


def moments_of(model: SharedModel, notes: Notes, part: Literal["parameters", "buffers"]) -> list[Moment]:
    """A model's parameters or buffers at every moment at which all of its ranks have looked."""
    by_step: dict[int, dict[int, Mapping[str, Digest]]] = {}
    for rank, told in model.noted(notes).items():
        for check in told.weights:
            by_step.setdefault(check.step, {})[rank] = (
                check.parameters if part == "parameters" else check.buffers
            )
    return ordered(
        moment(step, _by_name(parts)) for step, parts in by_step.items() if len(parts) == len(model.numbers)
    )


def _by_name(parts: Mapping[int, Mapping[str, Digest]]) -> Iterator[tuple[str, dict[int, Digest]]]:
    for name in next(iter(parts.values())):
        digests = {rank: part[name] for rank, part in parts.items() if name in part}
        if len(digests) == len(parts):
            yield name, digests


def _drifted_weights(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """The DDP model that was first to drift apart; the others that did are named with it."""
    drifted = [
        (found, model)
        for model in shared_models(notes)
        if (found := lasting(moments_of(model, notes, "parameters"))) is not None
    ]
    if not drifted:
        return None
    drifted.sort(key=lambda each: float("inf") if each[0].step == END else each[0].step)
    causes = [cause_of(outcome, notes, model.noted(notes), found) for found, model in drifted]
    (found, model), *others = drifted
    first = _weights(notes, found, model, causes[0])
    if not others:
        return first
    has = "has" if len(others) == 1 else "have"
    more = dict.fromkeys(cause.summary for cause in causes if cause.summary != causes[0].summary)
    labels = [
        model.label.strip().replace("on", "The model on", 1) if model.label.startswith(" ") else model.label
        for _, model in others
    ]
    also = f"{' and '.join(labels)} {has} drifted, too."
    return replace(first, summary=" ".join([first.summary, also, *more]))


def _weights(notes: Notes, found: Difference, model: SharedModel, cause: Diagnosis) -> Diagnosis:
    own = model.noted(notes)
    who = f": {who}" if (who := who_differs(found.alike)) else ""
    size = f" (by {found.at_least:.1g} or more)" if found.at_least is not None else ""
    since = (
        "at the end"
        if found.step == END
        else "from the beginning"
        if found.step == 0
        else f"since step {found.step}"
    )
    texts = {
        rank: _counted(told) + (_unlike_settings(told, own) if cause.kind == "optimizer_differs" else "")
        for rank, told in own.items()
    }
    differ = f"{_names(found)}{_of(model)}{size}, {since}{who}"
    return replace(
        cause,
        summary=f"The ranks ended without an error, but their weights differ: {differ}. {cause.summary}",
        evidence=lines_of(texts, cause.culprits),
    )


def _names(found: Difference) -> str:
    return found.name + (f" and {len(found.names) - 1} more" if len(found.names) > 1 else "")


def _of(model: SharedModel) -> str:
    if not model.label:
        return ""
    return model.label if model.label.startswith(" on ") else f" of {model.label}"


def _counted(told: ProbeNotes) -> str:
    counts = told.counts
    averaged = counts.backwards - sum(model.unheard for model in told.models)
    return (
        f"{steps(counts.forwards, 'forward pass')}, {steps(averaged, 'backward pass')} with averaging, "
        f"{steps(counts.steps, 'optimizer step')}"
    )


def _unlike_settings(told: ProbeNotes, notes: Notes) -> str:
    """Those of a rank's settings that are not the same everywhere, where that begins: `, lr=0.1`."""
    place = unlike_settings(notes)
    if place is None:
        return ""
    everyones = [each.gradients[place].settings for each in notes.values()]
    own = told.gradients[place].settings
    unlike = {
        f"{name}={value}": None
        for groups in everyones
        for group, other in zip(own, groups, strict=False)
        for name, value in group.items()
        if other.get(name) != value
    }
    return "".join(f", {setting}" for setting in list(unlike)[:4])


def _drifted_buffers(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Buffers of a model that DDP does not synchronise: statistics of each rank's data, or state that is the model."""
    for model in shared_models(notes):
        own = model.noted(notes)
        found = lasting(moments_of(model, notes, "buffers"))
        if found is None or any(check.managed for told in own.values() for check in told.weights):
            continue
        statistics = {name for told in own.values() for each in told.models for name in each.statistics}
        state = [name for name in found.names if name not in statistics]
        if state and _is_state(own, state):
            return diagnosis("buffers_drift.state", None, of=_of(model), names=names_in_a_row(state))
        return diagnosis("buffers_drift", None, of=_of(model), names=_names(found))
    return None


def _training(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    return training_fault(notes)


_RULES = (
    _drifted_weights,
    nothing_distributed,
    parameters_outside,
    _training,
    _drifted_buffers,
    _data,
    schedule_fault,
    too_many_threads,
)


def _is_state(own: Notes, names: list[str]) -> bool:
    """True for more than a number or two, such as a codebook: the model depends on it."""
    last = next(iter(own.values())).weights[-1].buffers
    return any(name in last and len(last[name].values) > 2 for name in names)
