"""What DDP itself objects to, told apart by what has become of the model and by how often backward() was called.

DDP's messages name one cause or two and advise an option; what a rank has seen of the wrapper often says which it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from course_lib.doctor.meanings import ADD_LOSSES, MEANINGS, Meaning, indices_in, model_with, names_at
from course_lib.doctor.notes import Notes, notes_of
from course_lib.doctor.words import names_in_a_row, steps
from course_lib.outcome.facts import NO_FACTS
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.probe_notes import Failure, ModelNotes
from course_lib.outcome.wrapped import WrappedModel

UNUSED = next(each for each in MEANINGS if each.kind == "unused_parameters")


def closer(meaning: Meaning, outcome: Outcome, rank: int, found: re.Match[str]) -> Meaning:
    """The same message with what is known of this rank: a closer meaning, or the one that the message has alone."""
    rule = _CLOSER.get(meaning.kind)
    return (rule and rule(outcome, rank, found)) or meaning


def _unused(outcome: Outcome, rank: int, found: re.Match[str]) -> Meaning | None:
    places = indices_in(found.group(0))
    failure = _failure(outcome, rank, found)
    model = failure.model if failure is not None else None
    return since_wrapped(model or model_with(outcome.facts.get(rank, NO_FACTS).models, places), places)


def since_wrapped(
    model: WrappedModel | None, places: list[int], lead: str = "In the step before, DDP waited on {ranks} for"
) -> Meaning | None:
    """DDP waits for parameters that are no longer in the model, or that were frozen, since the model was wrapped."""
    if model is None:
        return None
    gone = [place for place in places if place in model.gone]
    frozen = [place for place in places if place in model.frozen]
    others = [place for place in places if place not in (*gone, *frozen)]
    if not gone and not frozen:
        return None
    clauses = []
    if gone:
        clauses.append(f"{_listed(model, gone, 'is', 'are')} no longer in the model")
    if frozen:
        clauses.append(f"{_listed(model, frozen, 'was', 'were')} frozen after it was wrapped")
    told = f"{lead} gradients that cannot come: {', and '.join(clauses)}."
    if model.added:
        came = names_in_a_row(model.added)
        told += f" What came into the model, or was unfrozen, after it was wrapped ({came}), DDP does not know of."
    if others:
        told += f" No gradient came for {names_in_a_row(names_at(model, others))} either."
    hidden = (
        "find_unused_parameters=True would hide this, and each rank would train what was put in alone."
        if model.added
        else "find_unused_parameters=True would only search for them in every step."
    )
    if gone:
        return Meaning(
            "parameters_replaced",
            "",
            told,
            f"build the whole model first, then wrap it; after a change, wrap it anew on every rank. {hidden}",
            (7, 8),
        )
    return Meaning(
        "parameters_frozen",
        "",
        told,
        "freeze before wrapping: DDP takes the parameters that require a gradient when it is constructed. After a "
        f"change, wrap the model anew on every rank. {hidden}",
        (8, 7),
    )


def _listed(model: WrappedModel, places: list[int], one: str, many: str) -> str:
    return f"{names_in_a_row(names_at(model, places))} {one if len(places) == 1 else many}"


_IN_ONE_PASS = Meaning(
    "parameter_ready_twice",
    "",
    "{name} got its gradient twice in one backward pass on {ranks}.",
    "with checkpointing, pass use_reentrant=False; with find_unused_parameters=True, put both uses into one forward "
    "pass, or leave that option out.",
    (8, 6),
)


def _twice(outcome: Outcome, rank: int, found: re.Match[str]) -> Meaning | None:
    several = _several(outcome, rank, found, "{name} got its gradient in both, and DDP expects it once")
    if several is not None:
        return several
    failure = _failure(outcome, rank, found)
    if failure is None or failure.model is None:
        return None
    if not failure.model.find_unused_parameters:
        return _IN_ONE_PASS
    output = next((model.output for model in _models(outcome, rank) if model.output), "")
    if output:
        return Meaning(
            "output_not_seen",
            "",
            f"DDP found no tensor in what forward() returned on {{ranks}} (a {output}): with "
            "find_unused_parameters=True it took every parameter for unused, and then their gradients came all the "
            "same.",
            "return a tensor, or a tuple, dictionary or dataclass of tensors; or leave find_unused_parameters out.",
            (8,),
        )
    if failure.forwards < 2:
        return _IN_ONE_PASS
    return Meaning(
        "parameter_ready_twice",
        "",
        f"{{Ranks}} made {steps(failure.forwards, 'forward pass')} before one backward(), at {{where}}: with "
        "find_unused_parameters=True each of them marks what it has not used itself as ready, and then the gradient of "
        "{name} came all the same.",
        "put all of them into one forward pass of the wrapped model, or leave that option out where the passes use all "
        "parameters together.",
        (8, 6),
    )


def _changed(outcome: Outcome, rank: int, found: re.Match[str]) -> Meaning | None:
    return _several(outcome, rank, found, "the next step fails on what the others have left")


def _several(outcome: Outcome, rank: int, found: re.Match[str], so: str) -> Meaning | None:
    """One forward pass had several backward passes."""
    lines = backward_lines(notes_of(outcome), rank)
    if not lines:
        return None
    return Meaning(
        "several_backwards",
        "",
        f"{{Ranks}} called backward() {lines}, without a forward pass of the model between. DDP averages once for a "
        f"forward pass: {so}.",
        ADD_LOSSES,
        (6, 8),
    )


def backward_lines(notes: Notes, rank: int) -> str:
    """`at line 3 and again at line 4`, where a model's backward pass followed another; empty where none did."""
    for model in notes[rank].models if rank in notes else ():
        if model.bare_backwards:
            first, second = (model.events.get(event, "") for event in ("backward", "bare_backward"))
            return f"twice at {second}" if first in ("", second) else f"at {first} and again at {second}"
    return ""


def _failure(outcome: Outcome, rank: int, found: re.Match[str]) -> Failure | None:
    told = outcome.facts.get(rank, NO_FACTS).probe
    failures = told.failures if told is not None else ()
    return next((each for each in failures if found.string.startswith(each.message)), None)


def _models(outcome: Outcome, rank: int) -> tuple[ModelNotes, ...]:
    told = outcome.facts.get(rank, NO_FACTS).probe
    return told.models if told is not None else ()


_CLOSER: Mapping[str, Callable[[Outcome, int, re.Match[str]], Meaning | None]] = {
    "unused_parameters": _unused,
    "parameter_ready_twice": _twice,
    "graph_changed": _changed,
    "several_backwards": _changed,
}
