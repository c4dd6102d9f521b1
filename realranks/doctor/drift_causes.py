"""Why the weights of ranks differ though every rank has ended well: told from gradients, settings and calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from realranks.doctor import closures
from realranks.doctor.complaints import since_wrapped
from realranks.doctor.history import END, Difference
from realranks.doctor.meanings import indices_in, names_at
from realranks.doctor.model_order import different_order
from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import names_in_a_row
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import Digest, ModelNotes


def cause_of(outcome: Outcome, notes: Notes, own: Notes, found: Difference) -> Diagnosis:
    """Explain why these parameters of one DDP model differ.

    Args:
        own: the notes of the model's ranks, of this model alone; `notes` are those of all models.
    """
    unknown = _unknown_to_ddp(outcome, own, found.names) or _registered_otherwise(own)
    if unknown is not None:
        return unknown
    places = range(max((len(probe.gradients) for probe in own.values()), default=0))
    changed = _touched(own, found.step)
    if found.step == 0 and not _gradients_differ(own, 0):
        name = "weights_differ.changed" if changed else "weights_differ"
        return diagnosis(name, None, changed, changed=changed)
    skipped = _steps_left_out(own)
    if skipped is not None:
        return skipped
    if not places:
        return _without_an_optimizer(own, notes)
    if not any(_gradients_differ(own, place) for place in places):
        return _after_equal_gradients(own, notes, changed)
    return _changed_after_reduction(own, places) or _lost_averaging(own, notes)


def _touched(own: Notes, step: int) -> tuple[int, ...]:
    """Return the ranks whose weights were changed outside the optimizer by this step; empty if all of them were."""
    changed = tuple(
        rank
        for rank, probe in own.items()
        if any(
            (at != END and (step == END or at <= step)) or at == step
            for m in probe.models
            for at in m.touched
        )
    )
    return changed if len(changed) < len(own) else ()


def _unknown_to_ddp(outcome: Outcome, own: Notes, names: Collection[str]) -> Diagnosis | None:
    """Detect parameters that DDP does not manage: it took those that required a gradient when it was constructed."""
    late = {name for probe in own.values() for check in probe.weights for name in check.late}
    models = [model for facts in outcome.facts.values() for model in facts.models]
    added = late or {name for model in models for name in model.added}
    found = [name for name in names if name in added]
    if not found:
        return None
    thawed = {name for probe in own.values() for check in probe.weights for name in check.thawed}
    seen_wrapped = not any(model.found for probe in own.values() for model in probe.models)
    if thawed.issuperset(found):
        how = "they required no gradient when the model was wrapped"
    elif thawed.isdisjoint(found) and seen_wrapped:
        how = "they were added to the model after it was wrapped"
    else:
        how = "they were added to the model after it was wrapped, or required no gradient then"
    return diagnosis("parameters_added", None, names=names_in_a_row(found), how=how)


def _steps_left_out(own: Notes) -> Diagnosis | None:
    """Detect ranks with the same number of backward passes, but different numbers of optimizer steps."""
    counts = {rank: probe.counts for rank, probe in own.items()}
    made = {rank: each.steps for rank, each in counts.items()}
    if len(set(made.values())) == 1 or len({each.backwards for each in counts.values()}) > 1:
        return None
    fewest, most = min(made.values()), max(made.values())
    # That a rank has left steps out is its own word only where another one has stepped after every backward pass.
    whole = any(each.steps == each.backwards for each in counts.values())
    odd = tuple(rank for rank, each in counts.items() if whole and each.steps < each.backwards)
    by = {number: [rank for rank, steps in made.items() if steps == number] for number in (fewest, most)}
    words = {"fewest": by[fewest], "least": fewest, "most": by[most], "largest": most}
    return diagnosis("optimizer_steps_differ", None, odd, **words)


def _registered_otherwise(notes: Notes) -> Diagnosis | None:
    """Detect models that register the same parameters in different orders: DDP pairs them by position."""
    orders: dict[int, dict[int, list[str]]] = {}
    for rank, probe in notes.items():
        for check in probe.weights:
            orders.setdefault(check.model, {}).setdefault(rank, list(check.parameters))
    for by_rank in orders.values():
        first, *others = by_rank.items()
        for rank, names in others:
            if names != first[1] and sorted(names) == sorted(first[1]):
                one, other = next((a, b) for a, b in zip(first[1], names, strict=True) if a != b)
                return diagnosis("different_models", None, one=one, first=first[0], other=other, rank=rank)
    return None


def _without_an_optimizer(own: Notes, notes: Notes) -> Diagnosis:
    """Explain weights of a model that no optimizer has stepped, whose gradients were therefore not read."""
    counts = [probe.counts for probe in own.values()]
    if not any(each.backwards for each in counts) or len({each.backwards for each in counts}) > 1:
        return _lost_averaging(own, notes)
    return diagnosis("weights_differ.no_optimizer", None)


def _after_equal_gradients(notes: Notes, everything: Notes, changed: tuple[int, ...]) -> Diagnosis:
    place = unlike_settings(notes)
    if place is not None:
        step = next(iter(notes.values())).gradients[place].step
        since = f" since step {step}" if place else ""
        return diagnosis("optimizer_differs", None, since=since)
    if not changed and any(probe.closures for probe in everything.values()):
        return diagnosis("local_closure", None, calls=closures.calls_apart(everything), now="")
    name = "weights_differ.otherwise" if changed else "weights_differ.something_else"
    return diagnosis(name, None, changed, changed=changed)


def unlike_settings(notes: Notes) -> int | None:
    """Return the index of the first recorded step in which the optimizers' options differed between ranks."""
    for place in range(min(len(probe.gradients) for probe in notes.values())):
        if len({str(probe.gradients[place].settings) for probe in notes.values()}) > 1:
            return place
    return None


def _gradients_differ(notes: Notes, place: int) -> bool:
    return _unequal(
        [probe.gradients[place].gradients for probe in notes.values() if len(probe.gradients) > place]
    )


def _unequal(checks: Sequence[Mapping[str, Digest]]) -> bool:
    return len(checks) > 1 and any(
        len({check[name].crc if name in check else None for check in checks}) > 1 for name in checks[0]
    )


def _changed_after_reduction(notes: Notes, places: range) -> Diagnosis | None:
    """Detect gradients that were equal after DDP's reduction, and changed before the optimizer used them."""
    if any(probe.bare_backwards or probe.no_sync_steps for probe in notes.values()):
        return None  # gradients were changed by a backward pass that DDP did not reduce
    changed: set[int] = set()
    for place in places:
        if not _gradients_differ(notes, place):
            continue
        checks = {
            rank: probe.gradients[place] for rank, probe in notes.items() if len(probe.gradients) > place
        }
        reduced = [check.reduced for check in checks.values()]
        if _unequal(reduced) or not all(reduced):
            return None
        changed |= {
            rank
            for rank, check in checks.items()
            if any(check.gradients[name].crc != left.crc for name, left in check.reduced.items())
        }
    if not changed:
        return None
    ranks = tuple(sorted(changed))
    return diagnosis("gradients_changed", None, ranks if len(ranks) < len(notes) else (), ranks=ranks)


def _lost_averaging(notes: Notes, everything: Notes) -> Diagnosis:
    """Explain gradients that differed when an optimizer used them: DDP was not asked to average them."""
    counts = [probe.counts for probe in notes.values()]
    forwards = sum(each.forwards for each in counts)
    backwards = {each.backwards for each in counts}
    bypassed = sum(model.bypassed for probe in notes.values() for model in probe.models)
    if bypassed and bypassed >= forwards:
        return _not_averaged("gradients_not_averaged.bypassed", notes, "bypassed")
    if any("step_in_backward" in model.events for probe in notes.values() for model in probe.models):
        return _not_averaged("gradients_not_averaged.in_backward", notes, "step_in_backward")
    if any(probe.no_sync_steps for probe in notes.values()):
        return _not_averaged("gradients_not_averaged.no_sync", notes, "no_sync_step")
    unheard = next((m for probe in notes.values() for m in probe.models if m.unheard), None)
    if unheard is not None:
        return _output_not_seen(unheard)
    if any(model.within_forward for probe in notes.values() for model in probe.models):
        return _not_averaged("gradients_not_averaged.within_forward", notes, "bare_backward")
    if any(probe.bare_backwards for probe in notes.values()):
        return _not_averaged("gradients_not_averaged.bare", notes, "bare_backward")
    unfinished = _unfinished(notes)
    if unfinished is not None:
        return unfinished
    order = different_order(everything)
    if order is not None and order.swapped:
        return diagnosis("different_order.gradients", None, order=order.text())
    if bypassed:
        return _not_averaged("gradients_not_averaged.partly_bypassed", notes, "bypassed")
    if len(backwards) > 1:
        return diagnosis("gradients_not_averaged.unequal", None)
    if not any(backwards):
        never = "gradients_not_averaged.no_backward" if forwards else "gradients_not_averaged.never_called"
        return diagnosis(never, None)
    return diagnosis("gradients_not_averaged", None)


def _output_not_seen(model: ModelNotes) -> Diagnosis:
    """Explain that DDP, with a static graph, finds a backward pass only by tensors that forward returned."""
    seen = (
        f"it found none in what forward() returned (a {model.output})"
        if model.output
        else "the loss was computed from none of those that it found"
    )
    return diagnosis("output_not_seen", None, seen=seen)


def _unfinished(notes: Notes) -> Diagnosis | None:
    """Detect that DDP still waited for gradients at an optimizer's step; after the last step no error reports it."""
    found = {rank: m for rank, probe in notes.items() for m in probe.models if m.wrapped is not None}
    if not found:
        return None
    model = found[min(found)]
    assert model.wrapped is not None
    places = indices_in(model.unfinished)
    said = since_wrapped(model.wrapped, places)
    if said is None:
        said = "unused_parameters", {"names": names_in_a_row(names_at(model.wrapped, places)) or "parameters"}
    return diagnosis(f"{said[0]}.when_stepped", None, ranks=found, at=_at(notes, "unfinished"), **said[1])


def _not_averaged(name: str, notes: Notes, event: str) -> Diagnosis:
    return diagnosis(name, None, at=_at(notes, event))


def _at(notes: Notes, event: str) -> str:
    """Format the line at which a probe has seen this event, as ` at train.py:12`; empty if none has."""
    lines = [
        model.events[event] for probe in notes.values() for model in probe.models if event in model.events
    ]
    return f" at {lines[0]}" if lines and lines[0] else ""
