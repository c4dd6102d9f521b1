"""Lesson 05: the last step of every rank, and who waited in it."""

from __future__ import annotations

from course_lib.draw import Bar, Drawing, Lane, lanes
from course_lib.lab.traces import last_forward, seconds_waited, spans_since, timeline_of
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.spans import Stage
from course_lib.outcome.timeline import Timeline
from course_lib.outcome.timeline_drawing import tracks

#: A rank that does nothing for longer between its optimizer and its next forward was asleep.
_ASLEEP_SECONDS = 0.1
_WORDS = {
    "forward": "forward",
    "backward": "backward",
    "waiting": "waiting",
    "optimizer": "optimizer",
    "sleep": "asleep",
}


def waited(outcome: Outcome, rank: int) -> float:
    """Seconds that this rank waited in its last step."""
    timeline = timeline_of(outcome)
    return seconds_waited(spans_since(timeline, rank, last_forward(timeline, rank)))


def draw_last_step(outcome: Outcome, title: str) -> Drawing:
    """A lane per rank: its last step, from the end of its optimizer step before; a late forward shows as sleep."""
    timeline = timeline_of(outcome)
    begins = {rank: _step_before_ended(timeline, rank) for rank in timeline.ranks}
    zero = min(begins.values())
    found: list[Lane] = []
    asleep: list[str] = []
    for rank in timeline.ranks:
        forward = last_forward(timeline, rank)
        main = tracks(timeline, rank, since=zero)[0]
        bars = tuple(bar for bar in main if bar.start >= 1e3 * (forward - zero) - 1e-6)
        if forward - begins[rank] > _ASLEEP_SECONDS:
            asleep.append(f"rank {rank}")
            bars = (
                Bar(1e3 * (begins[rank] - zero), 1e3 * (forward - begins[rank]), "sleep", "asleep"),
                *bars,
            )
        found.append(Lane(f"rank {rank}", (bars,)))
    return lanes(
        found,
        title=title,
        alt=f"A lane per rank, its last step: asleep before its forward {', '.join(asleep) or 'nobody'}; the others "
        "compute at once, and wait at the end of backward.",
        legend=_WORDS,
        unit="milliseconds since the step began",
    )


def _step_before_ended(timeline: Timeline, rank: int) -> float:
    forward = last_forward(timeline, rank)
    mine = [span for span in timeline.spans if span.rank == rank and span.stage is Stage.OPTIMIZER]
    return max((span.end for span in mine if span.start < forward), default=0.0)
