"""Metrics that are a mean of the ranks' means, though these are of different numbers of rows: worth knowing.

Only fractions of a rank's own rows, such as an accuracy, are recognised: times its rows, each rank's is a whole number.
A mean loss looks like any other number.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from realranks.doctor.notes import Notes
from realranks.doctor.samples import averages
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import lines_of
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import ReducedMetric

#: Of fewer rows a number may be a fraction by chance.
_FEWEST = 16
#: How far from a whole number one is that was computed in float32.
_ROUNDING = 4e-7
#: A number of few binary digits is a fraction of many numbers of rows.
_FINE = 2**-12


def mean_of_means(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect fractions of different numbers of rows that are added up over the ranks, and so count alike."""
    if not averages(notes):
        return None
    calls = list(zip(*(probe.metrics for probe in notes.values()), strict=False))
    for call in calls:
        rows = [each.rows for each in call]
        alike = len({(each.where, each.loader, len(each.numbers)) for each in call}) == 1
        if not alike or len(set(rows)) == 1 or min(rows) < _FEWEST or not _of_one_dataset(notes, call):
            continue
        if any(
            rows == list(column) for each in calls for column in zip(*(m.numbers for m in each), strict=False)
        ):
            return None  # their numbers of rows are added up, too: the script can tell what is right
        for column in zip(*(each.numbers for each in call), strict=True):
            mean = sum(column) / len(column)
            right = sum(n * number for n, number in zip(rows, column, strict=True)) / sum(rows)
            # Fractions of the rows of all ranks add up to what is right.
            of_all = _fractions(column, [sum(rows)] * len(rows))
            if f"{mean:.3g}" != f"{right:.3g}" and _fractions(column, rows) and not of_all:
                texts = [f"{number:.4g} of {n} rows" for number, n in zip(column, rows, strict=True)]
                words = {"where": call[0].where, "mean": f"{mean:.4g}", "right": f"{right:.4g}"}
                return diagnosis(
                    "mean_of_means", None, (), lines_of(dict(zip(notes, texts, strict=True))), **words
                )
    return None


def _fractions(numbers: Sequence[float], of: Sequence[int]) -> bool:
    """Check that each number is a whole one divided by its number of rows, and that this can be no chance."""
    products = [number * rows for number, rows in zip(numbers, of, strict=True)]
    return any(number % _FINE for number in numbers) and all(
        abs(each) * _ROUNDING < 0.01 and abs(each - round(each)) <= _ROUNDING * max(1, abs(each))
        for each in products
    )


def _of_one_dataset(notes: Notes, call: Sequence[ReducedMetric]) -> bool:
    """Check that the ranks have evaluated even parts of one dataset: other parts may be tasks, which count alike."""
    loaders = [probe.loaders[metric.loader] for probe, metric in zip(notes.values(), call, strict=True)]
    drawn = [loader.epochs[0].indices for loader in loaders]
    batch = max(
        -(-len(part) // max(1, loader.epochs[0].batches)) for part, loader in zip(drawn, loaders, strict=True)
    )
    rows = [metric.rows for metric in call]
    apart = len({*itertools.chain(*drawn)}) == sum(map(len, drawn))
    one = all(loader.picked for loader in loaders) or (len({each.samples for each in loaders}) == 1 and apart)
    return one and all(drawn) and max(rows) - min(rows) <= max(batch, len(rows))
