"""Bounds on the distance between tensors that stayed on their ranks, computed from samples. Pure data, no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from realranks.watch.digest import Entry


@dataclass(frozen=True)
class Distance:
    """The size of a difference, as far as fingerprints tell it.

    Attributes:
        at_least: a lower bound of the largest absolute difference between two ranks' elements; 0 when the tensors
            differ only outside the samples and too little for their statistics.
        norms: by how much the largest 2-norm exceeds the smallest, relative to the largest.
        not_finite: how many elements are NaN or infinite, for each of the tensors compared.
    """

    at_least: float
    norms: float
    not_finite: tuple[int, ...]

    def __str__(self) -> str:
        said = f", by at least {self.at_least:.2g}" if self.at_least else ", by less than samples can tell"
        if self.norms >= 0.0005:
            said += f"; norms differ by {100 * self.norms:.2g} %"
        if any(self.not_finite):
            said += f"; {max(self.not_finite):,} elements are NaN or infinite"
        return said


def distance(entries: Sequence[Entry | None]) -> Distance | None:
    """Bound the distance between entries (see `digest`); None unless they are tensors or numbers of one shape.

    The bound on the largest absolute difference is a lower one: the differences between samples, minima, maxima and
    means, and that between norms divided by the square root of the number of elements. If elements are NaN or infinite,
    only samples count, because the statistics leave such elements out.
    """
    present = [entry for entry in entries if entry is not None]
    if len(present) < 2:
        return None
    if all("number" in entry for entry in present):
        numbers = [entry["number"] for entry in present]
        return Distance(_spread(numbers), _relative([abs(number) for number in numbers]), (0,) * len(numbers))
    tensors = [entry for entry in present if entry["kind"] == "tensor" and "samples" in entry]
    shapes = {tuple(entry["shape"]) for entry in tensors}
    if len(tensors) < 2 or len(shapes) > 1 or any("layout" in entry for entry in tensors):
        return None
    return _between_tensors(tensors)


def _between_tensors(tensors: Sequence[Entry]) -> Distance:
    not_finite = tuple(entry["nan"] + entry["inf"] for entry in tensors)
    bounds = [_sample_bound([entry["samples"] for entry in tensors])]
    norms = 0.0
    if not any(not_finite) and all("norm" in entry for entry in tensors):
        bounds += [_spread([entry[figure] for entry in tensors]) for figure in ("min", "max", "mean")]
        bounds.append(_spread([entry["norm"] for entry in tensors]) / math.sqrt(tensors[0]["count"]))
        norms = _relative([entry["norm"] for entry in tensors])
    return Distance(max(bounds), norms, not_finite)


def _sample_bound(samples: Sequence[Sequence[float | str]]) -> float:
    spreads = [
        _spread(values)
        for values in zip(*samples, strict=True)
        if all(isinstance(value, int | float) for value in values)
    ]
    return max(spreads, default=0.0)


def _spread(values: Sequence[float]) -> float:
    return float(max(values) - min(values))


def _relative(sizes: Sequence[float]) -> float:
    return _spread(sizes) / max(sizes) if max(sizes) > 0 else 0.0
