"""Tensors at several moments of a run: when did ranks begin to differ, and were they made equal again?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from realranks.outcome.probe_notes import Digest
from realranks.watch.majority import groups_of

#: The number of the step under which the end of the run is noted.
END = -1


@dataclass(frozen=True)
class Difference:
    """Values that differed between ranks at one moment.

    Attributes:
        step: before which step of the optimizer; `END` at the end of the run. name: the first tensor; `names`: all.
        at_least: by how much values differ; None where the samples do not tell.
        alike: the ranks that have the same in the first tensor, group by group.
        earliest: the step at which they may have begun to differ: what is between two moments is not seen.
    """

    step: int
    name: str
    at_least: float | None
    alike: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    earliest: int | None = None


@dataclass(frozen=True)
class Moment:
    """The state of ranks that are to be equal, at one moment."""

    step: int
    difference: Difference | None


def moment(step: int, tensors: Iterable[tuple[str, Mapping[int, Digest]]]) -> Moment:
    """Compare tensors, each by name with its digests on the ranks that are to have the same data in it."""
    differing = [(name, digests) for name, digests in tensors if differ(digests.values())]
    if not differing:
        return Moment(step, None)
    name, first = differing[0]
    gaps = [found for _, each in differing if (found := gap(each.values())) is not None]
    alike = groups_of({rank: each.crc for rank, each in first.items()})
    names = tuple(dict.fromkeys(name for name, _ in differing))
    return Moment(step, Difference(step, name, max(gaps, default=None), alike, names))


def differ(digests: Iterable[Digest]) -> bool:
    """Check for unequal digests, ignoring values that were not read."""
    return len({digest.crc for digest in digests if digest.crc is not None}) > 1


def gap(digests: Iterable[Digest]) -> float | None:
    """Compute by how much values differ at least; None if their samples are equal."""
    rows = [[value for value in digest.values if value is not None] for digest in digests]
    columns = list(zip(*rows, strict=False))
    return max((max(column) - min(column) for column in columns), default=0.0) or None


def ordered(moments: Iterable[Moment]) -> list[Moment]:
    """Sort by step, the end of the run last."""
    return sorted(moments, key=lambda each: float("inf") if each.step == END else each.step)


def made_equal_again(moments: Sequence[Moment]) -> bool:
    """Check for ranks that differed and were equal later, as with weights that are averaged now and then."""
    first = next((place for place, each in enumerate(moments) if each.difference is not None), len(moments))
    return any(each.difference is None for each in moments[first:])


def lasting(moments: Sequence[Moment]) -> Difference | None:
    """Return the last difference with the step at which it began; None if the ranks are equal at the end."""
    unequal = [each.difference for each in moments if each.difference is not None]
    if not unequal or made_equal_again(moments):
        return None
    first, last = unequal[0], unequal[-1]
    equal = [each.step for each in moments if each.difference is None]
    size = last.at_least if last.at_least is not None else first.at_least
    earliest = equal[-1] + 1 if equal else None
    return Difference(first.step, first.name, size, last.alike, last.names, earliest)
