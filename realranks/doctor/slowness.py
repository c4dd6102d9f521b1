"""Slow steps: a clear majority of the time goes to one late rank, to the input, or to communication.

Computing is no fault, and short runs are not judged. Shares are medians over spans of many steps, so that a pause (an
evaluation, a checkpoint) does not count; where ranks had to do without a core, the machine is slow and not the script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from realranks.doctor.notes import Notes
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import lines_of
from realranks.outcome.outcome import Diagnosis, Outcome
from realranks.outcome.probe_notes import Span

#: The kinds of diagnosis in this module.
SLOW = ("slow_rank", "slow_input", "slow_communication")
#: More of the time than this is a clear majority; less than that is hardly any.
_MAJORITY, _HARDLY = 0.6, 0.15
#: A rank that wanted a core for so much of the time, and had none, is on a machine with too much to do.
_STARVED = 0.25
#: Spans of a second or more, and steps in them.
_FEWEST_SPANS, _FEWEST_STEPS = 5, 20
#: Bytes per step: what takes long with fewer is not the network, but ranks that take turns, or have no core.
_FEWEST_BYTES = 1_000_000


@dataclass(frozen=True)
class Shares:
    """What one rank does with its time: shares of it, and the seconds and bytes of a step."""

    waiting: float
    loading: float
    asleep: float
    starved: float
    step: float
    moved: float


def shares_of(spans: Sequence[Span]) -> Shares | None:
    """Return the shares of a rank's time; None where it has trained for too short a time to say."""
    if len(spans) < _FEWEST_SPANS or sum(span.steps for span in spans) < _FEWEST_STEPS:
        return None
    return Shares(
        waiting=median(span.waiting / span.seconds for span in spans),
        loading=median(span.loading / span.seconds for span in spans),
        asleep=median(span.asleep / span.seconds for span in spans),
        starved=median(span.starved / span.seconds for span in spans),
        step=median(span.seconds / span.steps for span in spans),
        moved=median(span.moved / span.steps for span in spans),
    )


def slow_steps(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a run in which most of a step's time goes to one cause.

    Only where all ranks make the same steps, and send each other no messages: in a pipeline some wait by design.
    """
    found = {rank: shares for rank, probe in notes.items() if (shares := shares_of(probe.waiting.spans))}
    if (
        len(found) < len(notes)
        or len({probe.counts.steps for probe in notes.values()}) > 1
        or any(probe.messages for probe in notes.values())
        or any(shares.starved > _STARVED for shares in found.values())
    ):
        return None
    return _slow_rank(found, notes) or _slow_input(found, notes) or _slow_communication(found)


def _slow_rank(found: Mapping[int, Shares], notes: Notes) -> Diagnosis | None:
    late = min(found, key=lambda rank: found[rank].waiting)
    others = [rank for rank in found if rank != late]
    own, share = found[late], min(found[rank].waiting for rank in others)
    if share <= _MAJORITY or own.waiting > _HARDLY:
        return None
    shares = {
        "is in its DataLoader": own.loading,
        "sleeps, or waits for something else": own.asleep,
        "computes": 1 - own.waiting - own.loading - own.asleep,
    }
    does = max(shares, key=lambda each: shares[each])
    words = {"late": [late], "others": others, "does": does, "at": _at(notes, late)}
    return _told("slow_rank", found, share, [late], **words)


def _slow_input(found: Mapping[int, Shares], notes: Notes) -> Diagnosis | None:
    share = fmean(shares.loading for shares in found.values())
    if share <= _MAJORITY:
        return None
    longest = max(found, key=lambda rank: found[rank].loading)
    return _told("slow_input", found, share, (), ranks=found, at=_at(notes, longest))


def _slow_communication(found: Mapping[int, Shares]) -> Diagnosis | None:
    # Where the ranks wait for each other in turn, one of them does not wait at any moment: what their shares add up to
    # beyond that is time in which all of them do.
    share = sum(shares.waiting for shares in found.values()) - (len(found) - 1)
    moved = min(shares.moved for shares in found.values())
    if share <= _MAJORITY or moved < _FEWEST_BYTES:
        return None
    return _told("slow_communication", found, share, (), ranks=found, megabytes=f"{moved / 1e6:.0f}")


def _told(
    kind: str, found: Mapping[int, Shares], share: float, culprits: Sequence[int], **words: object
) -> Diagnosis:
    step = max(shares.step for shares in found.values())
    lines = {
        rank: f"waits for other ranks in {shares.waiting:.0%} of the time, is in the DataLoader in {shares.loading:.0%}"
        for rank, shares in found.items()
    }
    numbers = {"share": f"{share:.0%}", "seconds": f"{share * step:.2g} s", "step": f"{step:.2g} s"}
    return diagnosis(kind, None, culprits, lines_of(lines, culprits), **numbers, **words)


def _at(notes: Notes, rank: int) -> str:
    waiting = notes[rank].waiting
    return f" ({waiting.line} in {waiting.at_line:.0%} of its time)" if waiting.line else ""
