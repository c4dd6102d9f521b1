"""Lesson 11: what its predictions ask."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.outcome.outcome import Outcome


def averages(*texts: int) -> Callable[[Outcome], bool]:
    """These texts of ranks 0 to 2 met in one all-reduce; 0 for a rank that was not there."""
    return lambda outcome: list(texts) in outcome["ledger"][1]


def stops_after(count: int) -> Callable[[Outcome], bool]:
    """Rank 1 came through so many steps and no further."""
    return lambda outcome: len(outcome["ledger"][1]) == count


def differs_between_ranks(outcome: Outcome) -> bool:
    """The ranks' gradients are of different lengths."""
    return len(set(outcome["ratio"].values())) > 1
