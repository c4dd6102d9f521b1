"""From an outcome to why it happened: the rules in the order in which they are asked.

Each rule is a function from an outcome to a diagnosis or None; the first that fits speaks. They look at evidence only,
and where none fits the doctor says `unknown` and shows what was seen: a wrong diagnosis is worse than none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from course_lib.doctor import absences, drift, endings, errors, mismatches, roots, start
from course_lib.doctor.words import (
    blocked_in,
    capital,
    collective_text,
    lines_of,
    positions,
    rank_list,
    standing,
    steps,
)
from course_lib.ranks.outcome import Diagnosis, Kind, Outcome

Rule = Callable[[Outcome], Diagnosis | None]
_RULES: tuple[Rule, ...] = (
    endings.died,
    endings.interrupted,
    drift.swallowed_error,
    errors.known_error,
    endings.raised,
    roots.different_roots,
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
    return _unknown(outcome)


def _unknown(outcome: Outcome) -> Diagnosis:
    """No rule fits: what was seen, for a reader who knows the script."""
    blocked = blocked_in(outcome)
    late = rank_list(outcome.waiting or outcome.ranks)
    seen = f": {'; '.join(standing(blocked))}" if blocked else ""
    last = {rank: _last_collective(outcome, rank) for rank in outcome.ranks}
    return Diagnosis(
        "unknown",
        f"{capital(late)} did not finish, and what was seen fits no fault that is known here{seen}.",
        evidence=(*positions(outcome), *lines_of(last)),
        advice="begin with what each rank waits for above, and who would have to send or set it.",
    )


def _last_collective(outcome: Outcome, rank: int) -> str:
    records = outcome.recorded.get(rank, ())
    if not records:
        return "no collective was recorded"
    last = records[-1]
    place = f" at {last.where}" if last.where else ""
    return f"{steps(len(records), 'collective')} recorded, the last one {collective_text(last)}{place}"
