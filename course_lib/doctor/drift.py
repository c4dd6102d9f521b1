"""Silent faults: a script that ends well, and whose ranks have drifted apart; and errors that were swallowed.

Read from what the probe has noted (`watch.probe`); a run that was not watched has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from course_lib.doctor.data import data_fault
from course_lib.doctor.drift_causes import Cause, cause_of, unlike_settings
from course_lib.doctor.errors import swallowed_complaint
from course_lib.doctor.history import END, Difference, Moment, lasting, moment, ordered
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.mismatches import mismatch_in_passing
from course_lib.doctor.models import SharedModel, shared_models
from course_lib.doctor.notes import Notes, notes_of
from course_lib.doctor.nothing_distributed import nothing_distributed
from course_lib.doctor.outside_ddp import parameters_outside
from course_lib.doctor.roots import different_roots
from course_lib.doctor.words import (
    capital,
    lines_of,
    names_in_a_row,
    positions,
    rank_list,
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
    return Diagnosis(
        "swallowed_error",
        f"{capital(rank_list(swallowed))} {what} in {first.what}() at {first.where}, caught it and went on: since "
        f"then {rank_list(swallowed)} and {rank_list(others)} are in different steps.",
        tuple(swallowed),
        positions(outcome, swallowed),
        advice="let the error end the rank, or let all ranks agree (one all_reduce) that this step is left out, and "
        "leave it out on all of them.",
        lesson=taught_in(11),
    )


def _caught(outcome: Outcome, rank: int, told: ProbeNotes) -> Failure | None:
    """The first error that the script of this rank has caught; None where the only one is that which ended the rank."""
    if not told.failures or "closed by peer" in told.failures[0].message.lower():
        return None
    error = outcome.errors.get(rank)
    only = len(told.failures) == 1
    return None if only and error is not None and told.failures[0].type == error.type else told.failures[0]


def silent_fault(outcome: Outcome) -> Diagnosis | None:
    """What is wrong though every rank has ended well; None when nothing is, or nobody watched.

    What is only worth knowing is told where there is nothing worse.
    """
    found = swallowed_complaint(outcome) or mismatch_in_passing(outcome) or different_roots(outcome)
    if found is not None:
        return found
    notes = notes_of(outcome)
    if len(notes) < 2:
        return None
    worth_knowing = None
    for rule in (_drifted_weights, nothing_distributed, parameters_outside, _drifted_buffers, _data):
        found = rule(outcome, notes)
        if found is not None and not found.warning:
            return found
        worth_knowing = worth_knowing or found
    return worth_knowing


def _data(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    return data_fault(notes)


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
    first, *others = ((model, *_weights(outcome, notes, found, model)) for found, model in drifted)
    diagnosis = first[2]
    if not others:
        return diagnosis
    has = "has" if len(others) == 1 else "have"
    causes = dict.fromkeys(cause.sentence for _, cause, _ in others if cause.sentence != first[1].sentence)
    labels = [
        model.label.strip().replace("on", "The model on", 1) if model.label.startswith(" ") else model.label
        for model, _, _ in others
    ]
    also = f"{' and '.join(labels)} {has} drifted, too."
    return replace(diagnosis, summary=" ".join([diagnosis.summary, also, *causes]))


def _weights(
    outcome: Outcome, notes: Notes, found: Difference, model: SharedModel
) -> tuple[Cause, Diagnosis]:
    own = model.noted(notes)
    cause = cause_of(outcome, notes, own, found)
    culprits = cause.culprits
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
    more = f" and {len(found.names) - 1} more" if len(found.names) > 1 else ""
    of = _of(model)
    return cause, Diagnosis(
        cause.kind,
        f"The ranks ended without an error, but their weights differ: {found.name}{more}{of}{size}, {since}{who}. "
        f"{cause.sentence}",
        culprits,
        lines_of(texts, culprits),
        advice=cause.advice,
        lesson=taught_in(*cause.lessons),
    )


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
        return _state(model, state) if state and _is_state(own, state) else _statistics(model, found)
    return None


def _is_state(own: Notes, names: list[str]) -> bool:
    """True for more than a number or two, such as a codebook: the model depends on it."""
    last = next(iter(own.values())).weights[-1].buffers
    return any(name in last and len(last[name].values) > 2 for name in names)


def _state(model: SharedModel, names: list[str]) -> Diagnosis:
    return Diagnosis(
        "buffers_drift",
        f"The weights are equal, but buffers{_of(model)} that hold state of the model differ between ranks: "
        f"{names_in_a_row(names)}. DDP does not synchronise them (broadcast_buffers or forward_sync_buffers is "
        "False), and every rank changes them by its own data.",
        (),
        advice="update such a buffer from statistics that are summed over all ranks (one all_reduce), or leave "
        "forward_sync_buffers (broadcast_buffers) on: then rank 0's values count.",
        lesson=taught_in(9),
    )


def _statistics(model: SharedModel, found: Difference) -> Diagnosis:
    more = f" and {len(found.names) - 1} more" if len(found.names) > 1 else ""
    return Diagnosis(
        "buffers_drift",
        f"The weights are equal, but the buffers differ between ranks: {found.name}{more}{_of(model)}. DDP "
        "does not synchronise the buffers of this model (broadcast_buffers or forward_sync_buffers is False), so every "
        "rank keeps the statistics of its own data, and evaluates differently.",
        (),
        advice="leave forward_sync_buffers (broadcast_buffers) on, use SyncBatchNorm on GPUs, or average the buffers "
        "before evaluating and saving.",
        lesson=taught_in(9),
        warning=True,
    )
