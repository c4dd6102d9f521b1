"""Why the weights of ranks differ though every rank has ended well: told from gradients, settings and calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from course_lib.doctor import closures
from course_lib.doctor.complaints import UNUSED, since_wrapped
from course_lib.doctor.history import END, Difference
from course_lib.doctor.meanings import indices_in, names_at
from course_lib.doctor.model_order import different_order
from course_lib.doctor.notes import Notes
from course_lib.doctor.words import capital, names_in_a_row, rank_list
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.probe_notes import Digest, ModelNotes

_CALL_DDP = "call the DDP model itself, once before every backward pass."


@dataclass(frozen=True)
class Cause:
    """A kind of diagnosis with its sentence, its advice, the lessons that teach it and the odd ones out."""

    kind: str
    sentence: str
    advice: str
    lessons: tuple[int, ...]
    culprits: tuple[int, ...] = ()


def cause_of(outcome: Outcome, notes: Notes, own: Notes, found: Difference) -> Cause:
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
        return Cause(
            "weights_differ",
            f"{capital(rank_list(changed))} changed them after the model was wrapped."
            if changed
            else "DDP did not make them equal, or they were changed after it had.",
            "DDP makes weights equal once, when it is constructed (unless init_sync=False): change them on all ranks.",
            (9,),
            changed,
        )
    skipped = _steps_left_out(own)
    if skipped is not None:
        return skipped
    if not places:
        return _without_an_optimizer(own, notes)
    if not any(_gradients_differ(own, place) for place in places):
        return _after_equal_gradients(own, notes, changed)
    return _changed_after_reduction(own, places) or _lost_averaging(own, notes)


def _touched(own: Notes, step: int) -> tuple[int, ...]:
    """The ranks on which somebody other than the optimizer changed weights by this step, where others did not."""
    changed = tuple(
        rank
        for rank, told in own.items()
        if any(
            (at != END and (step == END or at <= step)) or at == step for m in told.models for at in m.touched
        )
    )
    return changed if len(changed) < len(own) else ()


def _unknown_to_ddp(outcome: Outcome, own: Notes, names: Collection[str]) -> Cause | None:
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
    return Cause(
        "parameters_added",
        f"DDP does not manage {names_in_a_row(found)}: {how}, so nobody averages their gradients.",
        "build the whole model, adapters included, and set requires_grad on all that is ever to be trained before "
        "wrapping it; after a change, wrap it anew on every rank.",
        (7,),
    )


def _steps_left_out(own: Notes) -> Cause | None:
    """The same backward passes on every rank, and different numbers of optimizer steps."""
    counts = {rank: told.counts for rank, told in own.items()}
    made = {rank: each.steps for rank, each in counts.items()}
    if len(set(made.values())) == 1 or len({each.backwards for each in counts.values()}) > 1:
        return None
    fewest, most = min(made.values()), max(made.values())
    # That a rank has left steps out is its own word only where another one has stepped after every backward pass.
    whole = any(each.steps == each.backwards for each in counts.values())
    odd = tuple(rank for rank, each in counts.items() if whole and each.steps < each.backwards)
    return Cause(
        "optimizer_steps_differ",
        f"Every rank made the same backward passes, but {rank_list(r for r, n in made.items() if n == fewest)} made "
        f"{fewest} optimizer steps and {rank_list(r for r, n in made.items() if n == most)} made {most}.",
        "step on every rank or on none: decide by a value that is the same everywhere (an all_reduce of the flag).",
        (9, 6),
        odd,
    )


def _registered_otherwise(notes: Notes) -> Cause | None:
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
                return Cause(
                    "different_models",
                    f"The model has its parameters in different orders, and DDP pairs them by their place: {one} of "
                    f"rank {first[0]} was made equal to, and averaged with, {other} of rank {rank}.",
                    "build the model in the same order on every rank (no loop over a set, no order of arrival).",
                    (7,),
                )
    return None


def _without_an_optimizer(own: Notes, notes: Notes) -> Cause:
    """No optimizer has stepped this model: its gradients were not looked at."""
    counts = [told.counts for told in own.values()]
    if not any(each.backwards for each in counts) or len({each.backwards for each in counts}) > 1:
        return _lost_averaging(own, notes)
    return Cause(
        "weights_differ",
        "No optimizer of torch's was seen to step them: something else has changed them, differently on each rank.",
        "DDP averages what backward() leaves in .grad: use that, and change weights by the same rule on every rank.",
        (9,),
    )


def _after_equal_gradients(notes: Notes, everything: Notes, changed: tuple[int, ...]) -> Cause:
    place = unlike_settings(notes)
    if place is not None:
        step = next(iter(notes.values())).gradients[place].step
        since = f" since step {step}" if place else ""
        return Cause(
            "optimizer_differs",
            f"The gradients were equal; the optimizers' settings are not{since}.",
            "give every rank's optimizer the same settings, and change them by the same schedule.",
            (9,),
        )
    if not changed and any(told.closures for told in everything.values()):
        return Cause(closures.KIND, closures.sentence(everything), closures.ADVICE, closures.LESSONS)
    return Cause(
        "weights_differ",
        f"The gradients were equal; {rank_list(changed)} changed the weights otherwise, between two steps."
        if changed
        else "The gradients were equal: something else has changed the weights on some ranks.",
        "DDP averages gradients and never repairs weights: change weights on all ranks alike, or broadcast them.",
        (9,),
        changed,
    )


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


def _changed_after_reduction(notes: Notes, places: range) -> Cause | None:
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
    return Cause(
        "gradients_changed",
        f"DDP had left equal gradients on all ranks; {rank_list(ranks)} changed them before the optimizer's step.",
        "change gradients after backward() (clipping, scaling, noise) on every rank alike, or on none.",
        (9,),
        ranks if len(ranks) < len(notes) else (),
    )


def _lost_averaging(notes: Notes, everything: Notes) -> Cause:
    """Gradients differed when an optimizer used them: what DDP was not asked to average."""
    counts = [told.counts for told in notes.values()]
    forwards = sum(each.forwards for each in counts)
    backwards = {each.backwards for each in counts}
    bypassed = sum(model.bypassed for told in notes.values() for model in told.models)
    if bypassed and bypassed >= forwards:
        return _not_averaged(
            f"Gradients were not averaged: the wrapped module was called past DDP (.module){_at(notes, 'bypassed')}.",
            _CALL_DDP,
            (7,),
        )
    if any(told.no_sync_steps for told in notes.values()):
        return _not_averaged(
            f"Gradients were not averaged: an optimizer stepped after no_sync() alone{_at(notes, 'no_sync_step')}.",
            "leave no_sync() before the last forward and backward of every step.",
            (10,),
        )
    unheard = next((m for told in notes.values() for m in told.models if m.unheard), None)
    if unheard is not None:
        return _output_not_seen(unheard)
    if any(told.bare_backwards for told in notes.values()):
        return _not_averaged(
            "Gradients were not all averaged: a backward pass followed another without a forward pass between"
            f"{_at(notes, 'bare_backward')}, and DDP reduces only the first.",
            "add the losses and call backward() once, or alternate forward and backward.",
            (6,),
        )
    unfinished = _unfinished(notes)
    if unfinished is not None:
        return unfinished
    order = different_order(everything)
    if order is not None and order.swapped:
        return Cause(
            "different_order",
            f"Gradients of different models were averaged with each other: {order.text()}.",
            "call forward and backward of several DDP models in the same order on every rank.",
            (6,),
        )
    if bypassed:
        return _not_averaged(
            f"Some gradients were not averaged: .module was called past DDP{_at(notes, 'bypassed')}.",
            _CALL_DDP,
            (7,),
        )
    if len(backwards) > 1:
        return _not_averaged(
            "The ranks made different numbers of backward passes: gradients of different steps were averaged.",
            "make the same number of forward and backward passes on every rank.",
            (6,),
        )
    if not any(backwards) and not forwards:
        return _not_averaged(
            "No backward pass was averaged: the DDP model itself was never called.",
            "call the DDP model itself: a method of .module goes around it.",
            (7, 6),
        )
    if not any(backwards):
        return _not_averaged(
            "No backward pass was averaged.",
            "call the DDP model itself, and then backward(): methods of .module and autograd.grad average nothing.",
            (6, 7),
        )
    return _not_averaged(
        "Gradients were not equal when the optimizer used them.",
        "change gradients (clipping, noise) after backward() alike on every rank, and call the DDP model itself.",
        (6, 7),
    )


def _output_not_seen(model: ModelNotes) -> Cause:
    """With a static graph, DDP learns of a backward pass from the tensors that forward has returned."""
    seen = (
        f"it found none in what forward() returned (a {model.output})"
        if model.output
        else "the loss was computed from none of those that it found"
    )
    return Cause(
        "output_not_seen",
        "Gradients were never averaged: with static_graph=True, DDP learns of the first backward pass from the tensors "
        f"in forward()'s output, and {seen}.",
        "return a tensor, or a tuple or dictionary of tensors, and compute the loss from them; or register the "
        "dataclass that you return (torch.export.register_dataclass); or leave static_graph out.",
        (8,),
    )


def _unfinished(notes: Notes) -> Cause | None:
    """DDP still waited for gradients when an optimizer used what had come: in the last step nobody hears of that."""
    found = {rank: m for rank, told in notes.items() for m in told.models if m.wrapped is not None}
    if not found:
        return None
    model = found[min(found)]
    assert model.wrapped is not None
    places = indices_in(model.unfinished)
    lead = f"When the optimizer stepped{_at(notes, 'unfinished')}, DDP still waited on {rank_list(found)} for"
    meaning = since_wrapped(model.wrapped, places, lead)
    if meaning is None:
        names = names_in_a_row(names_at(model.wrapped, places)) or "parameters"
        return Cause(UNUSED.kind, f"{lead} the gradients of {names}.", UNUSED.advice, UNUSED.lessons)
    return Cause(meaning.kind, meaning.summary, meaning.advice, meaning.lessons)


def _not_averaged(sentence: str, advice: str, lessons: tuple[int, ...]) -> Cause:
    return Cause("gradients_not_averaged", sentence, advice, lessons)


def _at(notes: Notes, event: str) -> str:
    """The line at which a probe has seen this event."""
    lines = [model.events[event] for told in notes.values() for model in told.models if event in model.events]
    return f" at {lines[0]}" if lines and lines[0] else ""
