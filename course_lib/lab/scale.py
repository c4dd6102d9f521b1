"""Lesson 15: what its predictions ask."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.outcome.outcome import Outcome


def _order(one: float, other: float) -> str:
    return "less" if one < other else "more" if one > other else "same"


def ring_sends(how: str) -> Callable[[Outcome], bool]:
    """Rank 0 sends `less`, `more` or the `same` in the ring, compared with the tree."""
    return lambda outcome: _order(outcome["sent"][0]["ring"], outcome["sent"][0]["tree"]) == how


def rank_holds(how: str) -> Callable[[Outcome], bool]:
    """On 1,024 ranks each holds `less`, `more` or the `same`, compared with 8."""
    return lambda outcome: _order(outcome["after"][0], outcome["before"][0]) == how


def arrives_in_fp16(*, of_two: bool, of_four: bool) -> Callable[[Outcome], bool]:
    """Whether the mean over two ranks, and that over four, is about 1e-7, and not 0."""
    return lambda outcome: [mean > 5e-8 for mean in outcome["means"][0].values()] == [of_two, of_four]
