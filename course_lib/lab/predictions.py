"""Conditions that answers to questions set on a run: predicates, and functions that make one from numbers.

`questions.toml` of the lessons names them. What only one lesson asks stands in its `lab.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from realranks.outcome.outcome import Outcome

# -- what the cell's last expression gives ------------------------------------------------------------------------


def all_have(number: float) -> Callable[[Outcome], bool]:
    """Predict that the cell ends well, and this is its value on every rank."""
    return lambda outcome: outcome.ok and set(outcome.values.values()) == {number}


def ranks_have(*numbers: float) -> Callable[[Outcome], bool]:
    """Predict that the cell ends well, and these are its values by rank."""
    return lambda outcome: outcome.ok and tuple(outcome.values.values()) == numbers


def adds_up_to(number: int) -> Callable[[Outcome], bool]:
    """Predict that the values of all ranks add up to this number."""
    return lambda outcome: sum(outcome.values.values()) == number


def yes_everywhere(outcome: Outcome) -> bool:
    """Return whether the value is true on every rank."""
    return all(outcome.values.values())


def yes_nowhere(outcome: Outcome) -> bool:
    """Return whether the value is true on no rank."""
    return not any(outcome.values.values())


def is_about(number: float) -> Callable[[Outcome], bool]:
    """Predict that rank 0's value is this number, within a tenth."""
    return lambda outcome: abs(outcome.values[0] - number) <= 0.1


def gives(value: object) -> Callable[[Outcome], bool]:
    """Predict that rank 0's value is this one."""
    return lambda outcome: bool(outcome.values[0] == value)


# -- what a variable holds ----------------------------------------------------------------------------------------


def value_is(name: str, value: object, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """Predict that the cell ends well, and the variable has this value (`at` these keys and places in it)."""
    return lambda outcome: outcome.ok and bool(_value_at(outcome, name, at, rank) == value)


def between(name: str, low: float, high: float, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """Predict that the cell ends well, and the variable is at least `low`, and less than `high`."""
    return lambda outcome: outcome.ok and low <= _value_at(outcome, name, at, rank) < high


def at_least(name: str, number: float, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """Predict that the cell ends well, and the variable is at least this number."""
    return between(name, number, float("inf"), *at, rank=rank)


def below(name: str, number: float, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """Predict that the cell ends well, and the variable is less than this number."""
    return between(name, float("-inf"), number, *at, rank=rank)


def _value_at(outcome: Outcome, name: str, at: tuple[object, ...], rank: int) -> Any:
    value: Any = outcome[name][rank]
    for key in at:
        value = value[key]
    return value
