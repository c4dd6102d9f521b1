"""Lesson 18: what its prediction asks."""

from __future__ import annotations

import re
from collections.abc import Callable

from course_lib.outcome.outcome import Outcome


def accuracy(outcome: Outcome) -> float:
    """What rank 0 told at the end."""
    return float(re.findall(r"accuracy (\d\.\d+)", outcome.stdout[0])[-1])


def loses(low: float, high: float, alone: float) -> Callable[[Outcome], bool]:
    """The accuracy is lower than that of one rank alone by at least `low`, and by less than `high`."""
    return lambda outcome: low <= alone - accuracy(outcome) < high
