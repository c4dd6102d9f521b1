"""Why the weights of ranks differ though every rank has ended well: told from gradients, settings and calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from course_lib.doctor import closures
from course_lib.doctor.complaints import since_wrapped
from course_lib.doctor.history import END, Difference
from course_lib.doctor.meanings import indices_in, names_at
from course_lib.doctor.model_order import different_order
from course_lib.doctor.notes import Notes
from course_lib.doctor.sentences import diagnosis
from course_lib.doctor.words import names_in_a_row
from course_lib.outcome.outcome import Diagnosis, Outcome
from course_lib.outcome.probe_notes import Digest, ModelNotes


def cause_of(outcome: Outcome, notes: Notes, own: Notes, found: Difference) -> Diagnosis:
    """Why these parameters of one DDP model differ.

    Args:
        own: the notes of the model's ranks, of this model alone; `notes` are those of all models.
    """
    unknown = _unknown_to_ddp(outcome, own, found.names) or _registered_otherwise(own)
    if unknown is not None:
        return unknown
    places = range(max((len(told.gradients) for told in own.values()), default=0))
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
    """The ranks on which other code than the optimizer's changed weights by this step, where others did not."""
    changed = tuple(
        rank
        for rank, told in own.items()
        if any(
            (at != END and (step == END or at <= step)) or at == step for m in told.models for at in m.touched
        )
    )
    return changed if len(changed) < len(own) else ()


def _unknown_to_ddp(outcome: Outcome, own: Notes, names: Collection[str]) -> Diagnosis | None:
    """Parameters that DDP does not manage: it took those that required a gradient when it was constructed."""
    late = {name for told in own.values() for check in told.weights for name in check.late}
    models = [model for facts in outcome.facts.values() for model in facts.models]
    added = late or {name for model in models for name in model.added}
    found = [name for name in names if name in added]
    if not found:
        return None
    thawed = {name for told in own.values() for check in told.weights for name in check.thawed}
    seen_wrapped = not any(model.found for told in own.values() for model in told.models)
    if thawed.issuperset(found):
        how = "they required no gradient when the model was wrapped"
    elif thawed.isdisjoint(found) and seen_wrapped:
        how = "they were added to the model after it was wrapped"
    else:
        how = "they were added to the model after it was wrapped, or required no gradient then"
    return diagnosis("parameters_added", None, names=names_in_a_row(found), how=how)


def _steps_left_out(own: Notes) -> Diagnosis | None:
    """The same backward passes on every rank, and different numbers of optimizer steps."""
    counts = {rank: told.counts for rank, told in own.items()}
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
    """The same parameters, but a model has them in another order on some rank: DDP pairs them by their place."""
    orders: dict[int, dict[int, list[str]]] = {}
    for rank, told in notes.items():
        for check in told.weights:
            orders.setdefault(check.model, {}).setdefault(rank, list(check.parameters))
    for by_rank in orders.values():
        first, *others = by_rank.items()
        for rank, names in others:
            if names != first[1] and sorted(names) == sorted(first[1]):
                one, other = next((a, b) for a, b in zip(first[1], names, strict=True) if a != b)
                return diagnosis("different_models", None, one=one, first=first[0], other=other, rank=rank)
    return None


def _without_an_optimizer(own: Notes, notes: Notes) -> Diagnosis:
    """No optimizer has stepped this model: its gradients were not looked at."""
    counts = [told.counts for told in own.values()]
    if not any(each.backwards for each in counts) or len({each.backwards for each in counts}) > 1:
        return _lost_averaging(own, notes)
    return diagnosis("weights_differ.no_optimizer", None)


def _after_equal_gradients(notes: Notes, everything: Notes, changed: tuple[int, ...]) -> Diagnosis:
    place = unlike_settings(notes)
    if place is not None:
        step = next(iter(notes.values())).gradients[place].step
        since = f" since step {step}" if place else ""
        return diagnosis("optimizer_differs", None, since=since)
    if not changed and any(told.closures for told in everything.values()):
        return diagnosis("local_closure", None, calls=closures.calls_apart(everything), now="")
    name = "weights_differ.otherwise" if changed else "weights_differ.something_else"
    return diagnosis(name, None, changed, changed=changed)


def unlike_settings(notes: Notes) -> int | None:
    """The first of the noted steps in which the optimizers' settings were not the same on all ranks."""
    for place in range(min(len(told.gradients) for told in notes.values())):
        if len({str(told.gradients[place].settings) for told in notes.values()}) > 1:
            return place
    return None


def _gradients_differ(notes: Notes, place: int) -> bool:
    return _unequal(
        [told.gradients[place].gradients for told in notes.values() if len(told.gradients) > place]
    )


def _unequal(checks: Sequence[Mapping[str, Digest]]) -> bool:
    return len(checks) > 1 and any(
        len({check[name].crc if name in check else None for check in checks}) > 1 for name in checks[0]
    )


def _changed_after_reduction(notes: Notes, places: range) -> Diagnosis | None:
    """DDP has left equal gradients wherever it is known, and the optimizers did not get what it left."""
    if any(told.bare_backwards or told.no_sync_steps for told in notes.values()):
        return None  # gradients were changed by a backward pass that DDP did not reduce
    changed: set[int] = set()
    for place in places:
        if not _gradients_differ(notes, place):
            continue
        checks = {rank: told.gradients[place] for rank, told in notes.items() if len(told.gradients) > place}
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
    """Gradients differed when an optimizer used them: what DDP was not asked to average."""
    counts = [told.counts for told in notes.values()]
    forwards = sum(each.forwards for each in counts)
    backwards = {each.backwards for each in counts}
    bypassed = sum(model.bypassed for told in notes.values() for model in told.models)
    if bypassed and bypassed >= forwards:
        return _not_averaged("gradients_not_averaged.bypassed", notes, "bypassed")
    if any(told.no_sync_steps for told in notes.values()):
        return _not_averaged("gradients_not_averaged.no_sync", notes, "no_sync_step")
    unheard = next((m for told in notes.values() for m in told.models if m.unheard), None)
    if unheard is not None:
        return _output_not_seen(unheard)
    if any(told.bare_backwards for told in notes.values()):
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
    """With a static graph, DDP learns of a backward pass from the tensors that forward has returned."""
    seen = (
        f"it found none in what forward() returned (a {model.output})"
        if model.output
        else "the loss was computed from none of those that it found"
    )
    return diagnosis("output_not_seen", None, seen=seen)


def _unfinished(notes: Notes) -> Diagnosis | None:
    """DDP still waited for gradients when an optimizer used what had come: in the last step no error tells of it."""
    found = {rank: m for rank, told in notes.items() for m in told.models if m.wrapped is not None}
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
    """The line at which a probe has seen this event."""
    lines = [model.events[event] for told in notes.values() for model in told.models if event in model.events]
    return f" at {lines[0]}" if lines and lines[0] else ""
