"""Groups of ranks with equal values, and those that differ from the majority: one rule, wherever ranks are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping


def groups_of(values: Mapping[int, Hashable]) -> tuple[tuple[int, ...], ...]:
    """Group the ranks that have the same value, the smallest group first."""
    ranks: dict[Hashable, list[int]] = {}
    for rank, value in sorted(values.items()):
        ranks.setdefault(value, []).append(rank)
    return tuple(sorted(map(tuple, ranks.values()), key=lambda group: (len(group), group)))


def odd_ones(values: Mapping[int, Hashable]) -> tuple[int, ...]:
    """Return the ranks whose value differs from that of more than half of all ranks.

    Without such a majority - two against two, or every rank for itself - no rank is the odd one out.
    """
    if not values:
        return ()
    common, number = Counter(values.values()).most_common(1)[0]
    if number * 2 <= len(values):
        return ()
    return tuple(sorted(rank for rank, value in values.items() if value != common))
