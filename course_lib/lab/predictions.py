"""What answers to questions say of a run, for all lessons: predicates, and functions that make one from numbers.

`lab/questions/NN.toml` names them. What only one lesson asks stands in that lesson's module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.outcome.outcome import Outcome

# -- what the cell's last expression gives ------------------------------------------------------------------------


def all_have(number: float) -> Callable[[Outcome], bool]:
    """The cell ends well, and this is its value on every rank."""
    return lambda outcome: outcome.ok and set(outcome.values.values()) == {number}


def ranks_have(*numbers: float) -> Callable[[Outcome], bool]:
    """The cell ends well, and these are its values by rank."""
    return lambda outcome: outcome.ok and tuple(outcome.values.values()) == numbers


def adds_up_to(number: int) -> Callable[[Outcome], bool]:
    """The values of all ranks add up to this number."""
    return lambda outcome: sum(outcome.values.values()) == number


def yes_everywhere(outcome: Outcome) -> bool:
    """The value is true on every rank."""
    return all(outcome.values.values())


def yes_nowhere(outcome: Outcome) -> bool:
    """The value is true on no rank."""
    return not any(outcome.values.values())


def is_about(number: float) -> Callable[[Outcome], bool]:
    """Rank 0's value is this number, give or take a tenth."""
    return lambda outcome: abs(outcome.values[0] - number) <= 0.1


def gives(value: object) -> Callable[[Outcome], bool]:
    """Rank 0's value is this one."""
    return lambda outcome: bool(outcome.values[0] == value)


# -- what a variable holds ----------------------------------------------------------------------------------------


def value_is(name: str, value: object, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """The cell ends well, and the variable has this value (`at` these keys and places in it)."""
    return lambda outcome: outcome.ok and bool(_held(outcome, name, at, rank) == value)


def between(name: str, low: float, high: float, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """The cell ends well, and the variable is at least `low`, and less than `high`."""
    return lambda outcome: outcome.ok and low <= _held(outcome, name, at, rank) < high


def at_least(name: str, number: float, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """The cell ends well, and the variable is at least this number."""
    return between(name, number, float("inf"), *at, rank=rank)


def below(name: str, number: float, *at: object, rank: int = 0) -> Callable[[Outcome], bool]:
    """The cell ends well, and the variable is less than this number."""
    return between(name, float("-inf"), number, *at, rank=rank)


def _held(outcome: Outcome, name: str, at: tuple[object, ...], rank: int) -> Any:
    held: Any = outcome[name][rank]
    for key in at:
        held = held[key]
    return held
