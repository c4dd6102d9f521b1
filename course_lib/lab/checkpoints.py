"""Lesson 14: what its predictions ask."""

from __future__ import annotations

from course_lib.outcome.outcome import Outcome


def _logged(outcome: Outcome) -> tuple[float, float, float]:
    """Accuracies of counters that are reduced in place: the first, the last, and what the last should be."""
    logged = outcome["logged"][0]["in_place"]
    return logged[0], logged[-1], outcome["truth"][0][-1]


def logs_the_truth(outcome: Outcome) -> bool:
    """The last accuracy in the log is right."""
    _, last, true = _logged(outcome)
    return abs(last - true) < 0.02


def logs_more_than_all(outcome: Outcome) -> bool:
    """It is above 100 %."""
    return _logged(outcome)[1] > 1


def logs_the_beginning(outcome: Outcome) -> bool:
    """It is nearer to the first one than to what would be right."""
    first, last, true = _logged(outcome)
    return last < 0.5 * (first + true)


def always_loads(outcome: Outcome) -> bool:
    """At every moment there was a checkpoint that could be loaded: of step 10 or of step 20."""
    return set(outcome.values[1]) <= {"10", "20"}


def loads_near_the_end(outcome: Outcome) -> bool:
    """The old one was lost at once; the new one could be loaded before it was complete."""
    return outcome.values[1].count("20") > 2 and "10" not in outcome.values[1][1:]


def never_loads(outcome: Outcome) -> bool:
    """The old one was lost at once; the new one could be loaded when it was complete."""
    return outcome.values[1].count("20") <= 2 and "10" not in outcome.values[1][1:]
