"""Readings of traced runs that several lessons use."""

from __future__ import annotations

from realranks.outcome.outcome import Outcome
from realranks.outcome.spans import Span, Stage
from realranks.outcome.timeline import Timeline


def timeline_of(outcome: Outcome) -> Timeline:
    """Return the timeline of a run.

    Raises:
        ValueError: it was not traced.
    """
    if outcome.timeline is None:
        raise ValueError("This run was not traced: run it with --trace, or trace=True.")
    return outcome.timeline


def spans_since(timeline: Timeline, rank: int, begin: float) -> list[Span]:
    """Return a rank's spans that start at this moment (in seconds) or later."""
    return [span for span in timeline.spans if span.rank == rank and span.start >= begin]


def last_forward(timeline: Timeline, rank: int) -> float:
    """Return when a rank last called a DDP model, in seconds; 0 where it never did."""
    starts = (span.start for span in timeline.spans if span.rank == rank and span.stage is Stage.FORWARD)
    return max(starts, default=0.0)


def seconds_waited(spans: list[Span]) -> float:
    """Return the seconds among these spans in which the main thread waited for other ranks."""
    return sum(span.duration for span in spans if span.stage is Stage.WAITING)
