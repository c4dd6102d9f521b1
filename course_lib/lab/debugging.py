"""Lesson 13: what its predictions ask."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.outcome.outcome import Outcome


def ends_within(low: float, high: float) -> Callable[[Outcome], bool]:
    """The cell ends well, after at least `low` seconds and before `high`."""
    return lambda outcome: outcome.ok and low <= outcome.seconds < high
