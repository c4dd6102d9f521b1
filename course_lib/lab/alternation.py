"""Lesson 06: what its predictions ask."""

from __future__ import annotations

from course_lib.outcome.outcome import Outcome

#: Percent by which right gradients may be off: rounding.
_ROUNDING = 0.1


def raised(outcome: Outcome) -> bool:
    """`measure` caught an error: it gives its words instead of a number."""
    return isinstance(outcome.values.get(0), str)


def right_gradients(outcome: Outcome) -> bool:
    """They are those that would be right, up to rounding."""
    off = outcome.values.get(0)
    return isinstance(off, float) and off < _ROUNDING


def wrong_gradients(outcome: Outcome) -> bool:
    """They are not."""
    off = outcome.values.get(0)
    return isinstance(off, float) and off >= _ROUNDING
