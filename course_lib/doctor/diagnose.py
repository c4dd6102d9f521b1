"""From an outcome to why it happened: the rules in the order in which they are asked.

Each rule is a function from an outcome to a diagnosis or None; the first that fits speaks. They look at evidence only,
and where none fits the doctor says `unknown` and shows what was seen: a wrong diagnosis is worse than none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from course_lib.doctor import absences, drift, endings, errors, mismatches, start
from course_lib.doctor.words import capital, positions, rank_list
from course_lib.ranks.outcome import Diagnosis, Kind, Outcome

Rule = Callable[[Outcome], Diagnosis | None]
_RULES: tuple[Rule, ...] = (
    endings.died,
    endings.interrupted,
    drift.swallowed_error,
    errors.known_error,
    endings.raised,
    endings.timed_out,
    endings.stopped,
    start.init_hang,
    mismatches.different_collectives,
    absences.rank_left,
)


def explained(outcome: Outcome) -> Outcome:
    """The same outcome with its diagnosis filled in."""
    return dataclasses.replace(outcome, diagnosis=diagnose(outcome))


def diagnose(outcome: Outcome) -> Diagnosis | None:
    """Why the run did not simply end well; None when it did, and nothing speaks against it.

    A run that was watched by the probe (`watch.probe`) is also asked whether its ranks have silently drifted apart.
    """
    if outcome.kind is Kind.OK and not outcome.interrupted:
        return drift.silent_fault(outcome)
    for rule in _RULES:
        found = rule(outcome)
        if found is not None:
            return found
    waiting = outcome.waiting or outcome.ranks
    return Diagnosis(
        "unknown",
        f"{capital(rank_list(waiting))} did not finish, and nothing here says why.",
        evidence=positions(outcome),
    )
