"""DDP's own error messages, explained by the history of the model and the number of its backward passes.

DDP's messages name one cause or two and advise an option; what a rank has seen of the wrapper often says which it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from realranks.doctor.meanings import Meaning, indices_in, model_with, names_at
from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import Words
from realranks.doctor.words import names_in_a_row, steps
from realranks.outcome.facts import NO_FACTS
from realranks.outcome.outcome import Outcome
from realranks.outcome.probe_notes import Failure, ModelNotes
from realranks.outcome.wrapped import WrappedModel

#: The name of a sentence in `diagnoses.toml`, and what to fill in.
Said = tuple[str, Words]


def closer(meaning: Meaning, outcome: Outcome, rank: int, found: re.Match[str]) -> Said:
    """Choose the sentence for a message of DDP's: one that this rank's record explains, or else the general one."""
    rule = _CLOSER.get(meaning.kind)
    return (rule and rule(outcome, rank, found)) or (meaning.name, {})


def _unused(outcome: Outcome, rank: int, found: re.Match[str]) -> Said | None:
    places = indices_in(found.group(0))
    failure = _failure(outcome, rank, found)
    model = failure.model if failure is not None else None
    return since_wrapped(model or model_with(outcome.facts.get(rank, NO_FACTS).models, places), places)


def since_wrapped(model: WrappedModel | None, places: list[int]) -> Said | None:
    """Explain a wait of DDP's for parameters that were removed or frozen after the model was wrapped."""
    if model is None:
        return None
    gone = [place for place in places if place in model.gone]
    frozen = [place for place in places if place in model.frozen]
    others = [place for place in places if place not in (*gone, *frozen)]
    if not gone and not frozen:
        return None
    clauses, more = [], ""
    if gone:
        clauses.append(f"{_listed(model, gone, 'is', 'are')} no longer in the model")
    if frozen:
        clauses.append(f"{_listed(model, frozen, 'was', 'were')} frozen after it was wrapped")
    if model.added:
        came = names_in_a_row(model.added)
        more = f" What came into the model, or was unfrozen, after it was wrapped ({came}), DDP does not know of."
    if others:
        more += f" No gradient came for {names_in_a_row(names_at(model, others))} either."
    hide = "hide this, and each rank would train what was put in alone"
    words = {"hide": hide if model.added else "only search for them in every step"}
    name = "parameters_replaced" if gone else "parameters_frozen"
    return name, {"clauses": ", and ".join(clauses), "more": more, **words}


def _listed(model: WrappedModel, places: list[int], one: str, many: str) -> str:
    return f"{names_in_a_row(names_at(model, places))} {one if len(places) == 1 else many}"


def _twice(outcome: Outcome, rank: int, found: re.Match[str]) -> Said | None:
    if lines := backward_lines(notes_of(outcome), rank):
        return "several_backwards.ready_twice", {"lines": lines}
    failure = _failure(outcome, rank, found)
    if failure is None or failure.model is None:
        return None
    output = next((model.output for model in _models(outcome, rank) if model.output), "")
    if failure.model.find_unused_parameters and output:
        return "output_not_seen.unused", {"output": output}
    if failure.nested:
        return "parameter_ready_twice.reentrant", {}
    if failure.model.find_unused_parameters and failure.forwards > 1:
        return "parameter_ready_twice.several_forwards", {"forwards": steps(failure.forwards, "forward pass")}
    return "parameter_ready_twice.in_one_pass", {}


def _changed(outcome: Outcome, rank: int, found: re.Match[str]) -> Said | None:
    lines = backward_lines(notes_of(outcome), rank)
    return ("several_backwards.changed", {"lines": lines}) if lines else None


def backward_lines(notes: Notes, rank: int) -> str:
    """Describe where one backward pass followed another, as `at line 3 and again at line 4`; '' if none did."""
    for model in notes[rank].models if rank in notes else ():
        if model.bare_backwards:
            first, second = (model.events.get(event, "") for event in ("backward", "bare_backward"))
            return f"twice at {second}" if first in ("", second) else f"at {first} and again at {second}"
    return ""


def _failure(outcome: Outcome, rank: int, found: re.Match[str]) -> Failure | None:
    probe = outcome.facts.get(rank, NO_FACTS).probe
    failures = probe.failures if probe is not None else ()
    return next((each for each in failures if found.string.startswith(each.message)), None)


def _models(outcome: Outcome, rank: int) -> Sequence[ModelNotes]:
    probe = outcome.facts.get(rank, NO_FACTS).probe
    return probe.models if probe is not None else ()


def _of_a_cell(outcome: Outcome, rank: int, found: re.Match[str]) -> Said | None:
    return None if outcome.what == "script" else ("initialized_twice.cell", {})


_CLOSER: Mapping[str, Callable[[Outcome, int, re.Match[str]], Said | None]] = {
    "unused_parameters": _unused,
    "parameter_ready_twice": _twice,
    "graph_changed": _changed,
    "several_backwards": _changed,
    "initialized_twice": _of_a_cell,
}
