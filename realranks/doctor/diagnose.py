"""From an outcome to why it happened: the rules in the order in which they are asked.

Each rule is a function from an outcome to a diagnosis or None; the first that fits speaks. They look at evidence only,
and where none fits the doctor says `unknown` and shows what was seen: a wrong diagnosis is worse than none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from realranks.doctor import deaths, endings, errors
from realranks.doctor.alignment import unequal_numbers
from realranks.doctor.files import torn_file
from realranks.doctor.hangs import explain_hang
from realranks.doctor.resumed import with_beginnings
from realranks.doctor.sentences import diagnosis
from realranks.doctor.silent import silent_fault
from realranks.doctor.stuck import as_probable, no_progress, with_threads
from realranks.doctor.words import (
    at_line,
    blocked_in,
    collective_text,
    lines_of,
    positions,
    standing,
    steps,
)
from realranks.outcome.outcome import NOT_ARRIVED, Diagnosis, Kind, Outcome


def probable(outcome: Outcome) -> Diagnosis | None:
    """Diagnose a run that stood still when it was ended, without a proof of a deadlock."""
    if not outcome.doubts or outcome.exits or outcome.interrupted:
        return None
    return _probably(outcome)


def _probably(outcome: Outcome) -> Diagnosis:
    cut = next((doubt for doubt in outcome.doubts if doubt.endswith(NOT_ARRIVED)), None)
    if cut is not None:
        return diagnosis("network_cut", outcome, what=cut)
    return as_probable(outcome, explain_hang(outcome) or _unknown(outcome))


def interrupted(outcome: Outcome) -> Diagnosis | None:
    """Diagnose a run that the stop button ended, and the standstill that may have been the reason."""
    found = endings.interrupted(outcome)
    if found is None or not outcome.doubts:
        return found
    # A learner who has pressed stop asks what the ranks were in, not how they came out of it.
    before = _probably(dataclasses.replace(outcome, kind=Kind.HANG))
    return dataclasses.replace(before, summary=f"{found.summary} {before.summary}")


_RULES: tuple[Callable[[Outcome], Diagnosis | None], ...] = (
    deaths.died,
    interrupted,
    errors.swallowed_error,
    torn_file,
    errors.known_error,
    errors.started_at_import,
    endings.left_behind,
    endings.raised,
    probable,
    no_progress,
    endings.timed_out,
    endings.stopped,
    explain_hang,
)


def with_diagnosis(outcome: Outcome) -> Outcome:
    """Return the outcome with its diagnosis filled in."""
    found = diagnose(outcome)
    return outcome if found is outcome.diagnosis else dataclasses.replace(outcome, diagnosis=found)


def diagnose(outcome: Outcome) -> Diagnosis | None:
    """Explain why the run did not simply end well; None if it did and nothing suggests a fault.

    A run that was watched by the probe (`watch.probe`) is also asked whether its ranks have silently drifted apart.
    """
    if outcome.kind is Kind.OK and not outcome.interrupted:
        if not outcome.facts:
            return None  # the run was not watched, and the numbers of collectives gave no reason to ask
        return with_beginnings(outcome, silent_fault(outcome) or unequal_numbers(outcome))
    found = next((found for rule in _RULES if (found := rule(outcome)) is not None), None)
    found = with_beginnings(outcome, found)
    return with_threads(outcome, found or _unknown(outcome))


def without_progress(outcome: Outcome) -> Diagnosis:
    """Diagnose a script that still runs, although no rank has made progress for long (`job.stalled`)."""
    return probable(outcome) or no_progress(outcome) or _unknown(outcome)


def while_it_runs(outcome: Outcome) -> Diagnosis:
    """Diagnose a run in which nothing has moved for some seconds (`job.if_ended_now`)."""
    if outcome.doubts:
        return _probably(outcome)
    return diagnosis("standing_still", outcome)


def _unknown(outcome: Outcome) -> Diagnosis:
    """Report what was seen, for a reader who knows the script, if no rule fits."""
    blocked = blocked_in(outcome)
    seen = f": {'; '.join(standing(blocked))}" if blocked else ""
    last = lines_of({rank: _last_collective(outcome, rank) for rank in outcome.ranks})
    late = outcome.waiting or outcome.ranks
    return diagnosis("unknown", outcome, (), (*positions(outcome), *last), late=late, seen=seen)


def _last_collective(outcome: Outcome, rank: int) -> str:
    records = outcome.recorded.get(rank, ())
    if not records:
        return "no collective was recorded"
    last = records[-1]
    return f"{steps(len(records), 'collective')} recorded, the last one {collective_text(last)}{at_line(last.where)}"
