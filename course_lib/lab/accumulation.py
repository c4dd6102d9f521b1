"""Lesson 10: what its predictions ask."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.outcome.outcome import Outcome


def scales_are(first: float, second: float) -> Callable[[Outcome], bool]:
    """The two ranks' scalers have these scales after the step."""
    return lambda outcome: [outcome["scale"][rank] for rank in (0, 1)] == [first, second]


def loss_becomes(low: float, high: float) -> Callable[[Outcome], bool]:
    """With K = 8 the loss is so many times that with K = 1: at least `low`, and less than `high`."""

    def becomes(outcome: Outcome) -> bool:
        losses = outcome["same_rate"][0]
        return bool(low <= losses[3] / losses[0] < high)

    return becomes
