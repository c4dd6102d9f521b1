"""Ranks that draw the same random numbers for different rows: worth knowing, because it may be meant."""

from __future__ import annotations

from statistics import median_low

from realranks.doctor.models import shared_models
from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.outcome.outcome import Diagnosis, Outcome

#: Passes, at least a third of all, and numbers before each: fewer than these, or than the batch has rows, are decisions
#: about the whole step (an image size, a layer to leave out), which ranks have to make alike.
_FEWEST, _NUMBERS = 3, 16
#: What seeds each generator.
_SEEDS = {"torch": "torch.manual_seed", "numpy.random": "np.random.seed"}
_IN_WORKERS = ("torch", "numpy.random", "random")


def same_random_numbers(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a default generator that is in the same state on all ranks and gives numbers row by row.

    Only where the rows come from a loader: a script that draws its rows itself may do so alike, and take its share.
    """
    for model in shared_models(notes):
        own = model.noted(notes)
        if len(own) < 2 or not all(any(each.trains for each in probe.loaders) for probe in own.values()):
            continue
        for name in _SEEDS:
            first, *others = (probe.draws.draws.get(name, []) for probe in own.values())
            many = [draw.numbers for draw in first if draw.numbers >= max(draw.rows, _NUMBERS)]
            if len(many) >= max(_FEWEST, len(first) / 3) and all(draws == first for draws in others):
                words = {"name": name, "numbers": median_low(many), "seed": _SEEDS[name]}
                return diagnosis("same_random_numbers", None, (), (), ranks=own, at=_at(own, name), **words)
        if found := _in_workers(own):
            return found
    return None


def _in_workers(own: Notes) -> Diagnosis | None:
    """Detect the same of the first workers of a loader, which each rank's process has seeded."""
    for loaders in zip(*(probe.loaders for probe in own.values()), strict=False):
        for name in _IN_WORKERS if all(loader.trains for loader in loaders) else ():
            first, *others = (loader.draws.get(name, []) for loader in loaders)
            numbers = [draw.numbers for draw in first if draw.numbers >= draw.rows]
            if len(numbers) < _FEWEST or sum(numbers) < _NUMBERS or any(draws != first for draws in others):
                continue
            words = {"name": name, "numbers": median_low(numbers), "at": _at(own, name)}
            return diagnosis("same_random_numbers.workers", None, (), (), ranks=own, **words)
    return None


def _at(own: Notes, name: str) -> str:
    """Name the line that has seeded torch's generator on all ranks, in a clause."""
    seeds = {probe.draws.seeded_at for probe in own.values()}
    at = seeds.pop() if len(seeds) == 1 and name == "torch" else ""
    return f" (at {at})" if at else ""
