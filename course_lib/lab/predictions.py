"""What answers to questions say of a run, for all lessons: predicates, and functions that make one from numbers.

`lab/questions/NN.toml` names them. What only one lesson asks stands in that lesson's module.
"""

from __future__ import annotations

from collections.abc import Callable

from course_lib.outcome.outcome import Outcome


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


def value_is(name: str, value: object) -> Callable[[Outcome], bool]:
    """Rank 0's variable has this value."""
    return lambda outcome: bool(outcome[name][0] == value)


def at_least(name: str, number: float) -> Callable[[Outcome], bool]:
    """Rank 0's variable is at least this number."""
    return lambda outcome: bool(outcome[name][0] >= number)


def below(name: str, number: float) -> Callable[[Outcome], bool]:
    """Rank 0's variable is less than this number."""
    return lambda outcome: bool(outcome[name][0] < number)
