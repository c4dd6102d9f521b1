"""The same tensors at several moments of a run: when did ranks begin to differ, and were they made equal again?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from course_lib.outcome.probe_notes import Digest
from course_lib.watch.majority import groups_of

#: The number of the step under which the end of the run is noted.
END = -1


@dataclass(frozen=True)
class Difference:
    """What was not the same on all ranks at one moment.

    Attributes:
        step: before which step of the optimizer; `END` at the end of the run. name: the first tensor; `names`: all.
        at_least: by how much values differ; None where the samples do not tell.
        alike: the ranks that have the same in the first tensor, group by group.
    """

    step: int
    name: str
    at_least: float | None
    alike: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]


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
    """True when they are not all the same; one that was not looked at differs from nothing."""
    return len({digest.crc for digest in digests if digest.crc is not None}) > 1


def gap(digests: Iterable[Digest]) -> float | None:
    """By how much values differ at least; None where their samples are the same."""
    rows = [[value for value in digest.values if value is not None] for digest in digests]
    columns = list(zip(*rows, strict=False))
    return max((max(column) - min(column) for column in columns), default=0.0) or None


def ordered(moments: Iterable[Moment]) -> list[Moment]:
    """By step, the end of the run last."""
    return sorted(moments, key=lambda each: float("inf") if each.step == END else each.step)


def made_equal_again(moments: Sequence[Moment]) -> bool:
    """True when ranks that had differed were equal at a later moment: weights are averaged now and then."""
    first = next((place for place, each in enumerate(moments) if each.difference is not None), len(moments))
    return any(each.difference is None for each in moments[first:])


def lasting(moments: Sequence[Moment]) -> Difference | None:
    """The last difference, with the step at which it began; None where ranks are equal, or were made equal again."""
    unequal = [each.difference for each in moments if each.difference is not None]
    if not unequal or made_equal_again(moments):
        return None
    first, last = unequal[0], unequal[-1]
    size = last.at_least if last.at_least is not None else first.at_least
    return Difference(first.step, first.name, size, last.alike, last.names)
