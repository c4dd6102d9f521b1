"""Ranks that draw the same random numbers for different rows: worth knowing, because it may be meant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import median_low

from realranks.doctor.models import shared_models
from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import LoaderNotes

#: Passes, at least a third of all, and numbers before each: fewer than these, or than the batch has rows, are decisions
#: about the whole step (an image size, a layer to leave out), which ranks have to make alike.
_FEWEST, _NUMBERS = 3, 16
#: What seeds each generator.
_SEEDS = {"torch": "torch.manual_seed", "numpy.random": "np.random.seed", "random": "random.seed"}
#: Numbers for a row, at least: a real number takes two of numpy's and of Python's, and a shuffle of the rows, which all
#: ranks may make alike, fewer.
_FOR_A_ROW = {"torch": 1, "numpy.random": 2, "random": 2}


def same_random_numbers(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a default generator that is in the same state on all ranks and gives numbers row by row.

    Only where each rank gets other rows from a loader: a script that draws its rows itself, or loads those of all
    ranks, may do so alike, and take its share.
    """
    for model in shared_models(notes):
        own = model.noted(notes)
        if len(own) < 2 or not (loaders := _with_rows_of_their_own(own)):
            continue
        for name in _SEEDS:
            first, *others = (probe.draws.draws.get(name, []) for probe in own.values())
            many = [
                draw.numbers for draw in first if draw.numbers >= max(_FOR_A_ROW[name] * draw.rows, _NUMBERS)
            ]
            if len(many) >= max(_FEWEST, len(first) / 3) and all(draws == first for draws in others):
                words = {"name": name, "numbers": median_low(many), "seed": _SEEDS[name]}
                return diagnosis("same_random_numbers", None, (), (), ranks=own, at=_at(own, name), **words)
        if found := _while_loading(own, loaders):
            return found
    return None


def _while_loading(own: Notes, loaders: Sequence[Sequence[LoaderNotes]]) -> Diagnosis | None:
    """Detect the same of the first batches of a loader, also in its first worker, which each rank has seeded."""
    for same, name in product(loaders, _SEEDS):
        first, *others = (loader.draws.get(name, []) for loader in same)
        numbers = [draw.numbers for draw in first if draw.numbers >= _FOR_A_ROW[name] * draw.rows]
        if len(numbers) < _FEWEST or sum(numbers) < _NUMBERS or any(draws != first for draws in others):
            continue
        words = {"name": name, "numbers": median_low(numbers), "seed": _SEEDS[name], "at": _at(own, name)}
        kind = "same_random_numbers.workers" if same[0].has_workers else "same_random_numbers"
        return diagnosis(kind, None, (), (), ranks=own, **words)
    return None


def _with_rows_of_their_own(own: Notes) -> list[tuple[LoaderNotes, ...]]:
    """List the loaders that train, each with its counterparts on the other ranks, unless all draw the same rows."""
    found = []
    for loaders in zip(*(probe.loaders for probe in own.values()), strict=False):
        rows = [[epoch.indices or epoch.rows for epoch in loader.epochs[:1]] for loader in loaders]
        if all(loader.trains for loader in loaders) and (rows.count(rows[0]) < len(rows) or not any(rows[0])):
            found.append(loaders)
    return found


def _at(own: Notes, name: str) -> str:
    """Name the line that has seeded torch's generator on all ranks, in a clause."""
    seeds = {probe.draws.seeded_at for probe in own.values()}
    at = seeds.pop() if len(seeds) == 1 and name == "torch" else ""
    return f" (at {at})" if at else ""
