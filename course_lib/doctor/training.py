"""Faults that leave the weights alike: gradients that never come, a mode that differs, too many threads."""

from __future__ import annotations

from course_lib.doctor.models import shared_models
from course_lib.doctor.notes import Notes
from course_lib.doctor.sentences import diagnosis
from course_lib.doctor.words import lines_of, names_in_a_row, steps
from course_lib.outcome.outcome import Diagnosis, Outcome
from course_lib.outcome.probe_notes import ModelNotes

#: Backward passes after which a parameter without a gradient has had its chance.
_FEWEST = 3
#: Threads for each core from which on most of them only keep each other waiting.
_MOST_THREADS_PER_CORE = 4


def training_fault(notes: Notes) -> Diagnosis | None:
    """The first of these rules that fits a model."""
    for model in shared_models(notes):
        own = {rank: told.models[0] for rank, told in model.noted(notes).items() if told.models}
        if len(own) == len(model.numbers):
            found = _gradients_cut(own, notes) or _modes_differ(own)
            if found is not None:
                return found
    return None


def _gradients_cut(own: dict[int, ModelNotes], notes: Notes) -> Diagnosis | None:
    """Parameters that never get a gradient feed a collective behind which autograd sees nothing."""
    # Gradients that an optimizer has used up within backward() are none afterwards, either: all of them.
    if any(model.backwards < _FEWEST or len(model.never) >= model.parameters for model in own.values()):
        return None
    cut = [name for name in next(iter(own.values())).cut if all(name in model.cut for model in own.values())]
    where = next((notes[rank].gathered_at for rank in own), "")
    if not cut or not where:
        return None
    words = {"names": names_in_a_row(cut), "number": steps(len(cut), "parameter"), "where": where}
    return diagnosis("gradients_cut", None, (), (), **words)


def _modes_differ(own: dict[int, ModelNotes]) -> Diagnosis | None:
    """Some ranks train in evaluation mode, and others never do."""
    if not all(model.has_modes and model.backwards for model in own.values()):
        return None
    late = [rank for rank, model in own.items() if model.evaluating]
    if not late or len(late) == len(own):
        return None
    texts = {
        rank: f"{steps(model.evaluating, 'backward pass')} of {model.backwards} in evaluation mode"
        for rank, model in own.items()
    }
    others = [rank for rank in own if rank not in late]
    return diagnosis("modes_differ", None, late, lines_of(texts, late), ranks=late, others=others)


def too_many_threads(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """The ranks of one machine compute with several times as many threads as it has cores."""
    threads = {rank: told.threads for rank, told in notes.items() if told.threads > 1}
    cores = max(told.cores for told in notes.values())
    if outcome.hosts or not threads or sum(threads.values()) < _MOST_THREADS_PER_CORE * cores:
        return None
    many = max(threads.values())
    words = {"ranks": threads, "many": many, "all": sum(threads.values()), "cores": cores}
    return diagnosis("too_many_threads", None, (), (), fair=max(1, cores // len(notes)), **words)
