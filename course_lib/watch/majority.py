"""Which ranks differ from the majority: one rule, wherever ranks are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping


def odd_ones(values: Mapping[int, Hashable]) -> tuple[int, ...]:
    """The ranks that do not have what more than half of all ranks have.

    Where nothing is held by more than half - two against two, or everyone for itself - nobody is the odd one out.
    """
    if not values:
        return ()
    common, number = Counter(values.values()).most_common(1)[0]
    if number * 2 <= len(values):
        return ()
    return tuple(sorted(rank for rank, value in values.items() if value != common))
