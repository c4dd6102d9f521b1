"""Faults that leave the weights alike: gradients that never come, a mode that differs, too many threads."""

from __future__ import annotations

from collections.abc import Iterator

from realranks.doctor.models import shared_models
from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import lines_of, names_in_a_row, steps
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import ModelNotes

#: Backward passes after which a parameter without a gradient has had its chance.
_FEWEST = 3
#: Threads for each core from which on most of them only keep each other waiting.
_MAX_THREADS_PER_CORE = 4


def _shared(notes: Notes) -> Iterator[dict[int, ModelNotes]]:
    """Yield what each rank has noted of a DDP model, model by model."""
    for model in shared_models(notes):
        own = {rank: probe.models[0] for rank, probe in model.noted(notes).items() if probe.models}
        if len(own) == len(model.numbers):
            yield own


def gradients_cut(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect parameters without gradients that feed a collective through which autograd cannot see."""
    for own in _shared(notes):
        # Gradients that an optimizer has used up within backward() are none afterwards, either: all of them.
        if any(model.backwards < _FEWEST or len(model.never) >= model.parameters for model in own.values()):
            continue
        cut = [
            name for name in next(iter(own.values())).cut if all(name in model.cut for model in own.values())
        ]
        where = next((notes[rank].gathered_at for rank in own), "")
        if not cut or not where:
            continue
        words = {"names": names_in_a_row(cut), "number": steps(len(cut), "parameter"), "where": where}
        return diagnosis("gradients_cut", None, (), (), **words)
    return None


def modes_differ(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect ranks that train in evaluation mode while others never do."""
    for own in _shared(notes):
        if not all(model.has_modes and model.backwards for model in own.values()):
            continue
        late = [rank for rank, model in own.items() if model.evaluating]
        if not late or len(late) == len(own):
            continue
        texts = {
            rank: f"{steps(model.evaluating, 'backward pass')} of {model.backwards} in evaluation mode"
            for rank, model in own.items()
        }
        others = [rank for rank in own if rank not in late]
        return diagnosis("modes_differ", None, late, lines_of(texts, late), ranks=late, others=others)
    return None


def modes_of_parts_differ(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a part of the model, such as a frozen norm, whose mode differs between ranks."""
    for own in _shared(notes):
        before: dict[int, tuple[str, ...]] = {}
        for step in sorted(set.intersection(*(set(model.modes) for model in own.values()))):
            now = {rank: model.modes[step] for rank, model in own.items()}
            split = {
                name: [rank for rank in now if name in now[rank]] for parts in now.values() for name in parts
            }
            late = next((ranks for ranks in split.values() if len(ranks) < len(own)), None)
            if late is not None:
                # Where all began alike, those are at fault that have changed.
                changed = [rank for rank in before if before[rank] != now[rank]]
                odd = changed if len(changed) < len(own) else []
                which = names_in_a_row([name for name, ranks in split.items() if ranks == late])
                texts = {rank: f"{which} in {'evaluation' if rank in late else 'train'} mode" for rank in own}
                others = [rank for rank in own if rank not in late]
                since = f"since step {step}" if step else "from the beginning"
                words = {"names": which, "since": since, "ranks": late, "others": others}
                return diagnosis("modes_differ.parts", None, odd, lines_of(texts, odd), **words)
            before = now
    return None


def clipped_scaled(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect gradients that are clipped before a GradScaler has taken its scale out of them."""
    places = {rank: probe.clipped_scaled_at for rank, probe in notes.items() if probe.clipped_scaled_at}
    if not places:
        return None
    return diagnosis("clipped_scaled", None, (), (), ranks=places, where=next(iter(places.values())))


def clipped_apart(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect gradients of single ranks that are clipped before DDP averages them."""
    places = {rank: probe.clipped_apart_at for rank, probe in notes.items() if probe.clipped_apart_at}
    if not places:
        return None
    where = next(iter(places.values()))
    return diagnosis("clipped_before_averaging", None, (), (), ranks=places, where=where)


def too_many_threads(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect ranks of one machine that compute with several times as many threads as it has cores."""
    threads = {rank: probe.threads for rank, probe in notes.items() if probe.threads > 1}
    cores = max(probe.cores for probe in notes.values())
    if outcome.hosts or not threads or sum(threads.values()) < _MAX_THREADS_PER_CORE * cores:
        return None
    many = max(threads.values())
    words = {"ranks": threads, "many": many, "all": sum(threads.values()), "cores": cores}
    return diagnosis("too_many_threads", None, (), (), fair=max(1, cores // len(notes)), **words)
