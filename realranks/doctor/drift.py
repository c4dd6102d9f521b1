"""Weights and buffers of DDP models that have drifted apart, read from what the probe has noted (`watch.probe`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from realranks.doctor.drift_causes import cause_of, unlike_settings
from realranks.doctor.history import END, Difference, Moment, lasting, moment, ordered
from realranks.doctor.models import SharedModel, shared_models
from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import (
    lines_of,
    names_in_a_row,
    steps,
    who_differs,
)
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import Digest, ProbeNotes


def moments_of(model: SharedModel, notes: Notes, part: Literal["parameters", "buffers"]) -> list[Moment]:
    """Collect a model's parameters or buffers at each moment that all of its ranks have recorded."""
    by_step: dict[int, dict[int, Mapping[str, Digest]]] = {}
    for rank, probe in model.noted(notes).items():
        for check in probe.weights:
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


def drifted_weights(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Report the first DDP model whose weights drifted apart, and name the other ones with it."""
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
        if found.earliest in (None, found.step)
        else f"since one of the steps {found.earliest} to {found.step}"
    )
    texts = {
        rank: _counted(probe) + (_unlike_settings(probe, own) if cause.kind == "optimizer_differs" else "")
        for rank, probe in own.items()
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


def _counted(probe: ProbeNotes) -> str:
    counts = probe.counts
    averaged = counts.backwards - sum(model.unheard for model in probe.models)
    within = sum(model.within_forward for model in probe.models)
    alone = f" and {within} without" if within else ""
    return (
        f"{steps(counts.forwards, 'forward pass')}, {steps(averaged, 'backward pass')} with averaging{alone}, "
        f"{steps(counts.steps, 'optimizer step')}"
    )


def _unlike_settings(probe: ProbeNotes, notes: Notes) -> str:
    """List a rank's options that differ from those of others, at the first step where they do: `, lr=0.1`."""
    place = unlike_settings(notes)
    if place is None:
        return ""
    everyones = [each.gradients[place].settings for each in notes.values()]
    own = probe.gradients[place].settings
    unlike = {
        f"{name}={value}": None
        for groups in everyones
        for group, other in zip(own, groups, strict=False)
        for name, value in group.items()
        if other.get(name) != value
    }
    return "".join(f", {setting}" for setting in list(unlike)[:4])


def drifted_buffers(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect differing buffers that DDP does not synchronise: statistics of local data, or state of the model."""
    for model in shared_models(notes):
        own = model.noted(notes)
        found = lasting(moments_of(model, notes, "buffers"))
        if found is None or any(check.managed for probe in own.values() for check in probe.weights):
            continue
        statistics = {name for probe in own.values() for each in probe.models for name in each.statistics}
        state = [name for name in found.names if name not in statistics]
        if state and _is_state(own, state):
            return diagnosis("buffers_drift.state", None, of=_of(model), names=names_in_a_row(state))
        return diagnosis("buffers_drift", None, of=_of(model), names=_names(found))
    return None


def drifted_copies(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a second copy of a model, the only one on each rank, that differs while the models agree."""
    for model in shared_models(notes):
        own = {rank: probe.models[0] for rank, probe in model.noted(notes).items() if probe.models}
        alone = len(own) == len(model.numbers) and all(len(each.copies) == 1 for each in own.values())
        moments = {each.copies_at for each in own.values()}
        if not alone or len(moments) > 1 or len({each.copies[0] for each in own.values()}) == 1:
            continue
        kept = [rank for rank, each in own.items() if each.copies == each.first_copies]
        began_alike = len({tuple(each.first_copies) for each in own.values()}) == 1
        changed = [rank for rank in own if rank not in kept]
        name = "copies_differ.updated" if kept and began_alike else "copies_differ"
        when = "in an evaluation" if all(moments) else "at the end"
        words = {"of": _of(model), "ranks": model.numbers, "kept": kept, "changed": changed, "when": when}
        return diagnosis(name, None, changed if name != "copies_differ" else (), (), **words)
    return None


def _is_state(own: Notes, names: list[str]) -> bool:
    """Check that a buffer holds more than two numbers, such as a codebook: the model's output depends on it."""
    last = next(iter(own.values())).weights[-1].buffers
    return any(name in last and len(last[name].values) > 2 for name in names)
