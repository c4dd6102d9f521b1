"""Lesson 18: what its prediction asks."""

from __future__ import annotations

import re
from collections.abc import Callable

from realranks.outcome.outcome import Outcome


def accuracy(outcome: Outcome) -> float:
    """Return the accuracy that rank 0 reports at the end."""
    return float(re.findall(r"accuracy (\d\.\d+)", outcome.stdout[0])[-1])


def loses(low: float, high: float, alone: float) -> Callable[[Outcome], bool]:
    """Predict that the accuracy falls short of one rank's alone by at least `low`, and by less than `high`."""
    return lambda outcome: low <= alone - accuracy(outcome) < high
