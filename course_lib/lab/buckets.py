"""Lesson 04: one backward pass on several ranks, or of several programs, as a picture."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.draw import Drawing, Lane, lanes
from course_lib.lab.traces import last_forward, seconds_waited, spans_since, timeline_of
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.spans import Stage
from course_lib.outcome.timeline import Timeline
from course_lib.outcome.timeline_drawing import tracks

_WORDS = {
    "forward": "forward",
    "backward": "backward",
    "waiting": "waiting",
    "optimizer": "optimizer",
    "communication": "all-reduces under way",
}


def draw_backward(
    rows: Mapping[str, tuple[Outcome, int]], title: str, *, one_clock: bool = True, note: str = ""
) -> Drawing:
    """A lane for each traced run and rank: above what its main thread does, below the all-reduces under way.

    Args:
        rows: by the lane's name, the run and the rank; its last backward pass and what follows are drawn.
        note: beside the title, what is measured.
        one_clock: time begins with the first of the backward passes; otherwise each lane's begins with its own.
    """
    traced = {name: (timeline_of(outcome), rank) for name, (outcome, rank) in rows.items()}
    begins = {name: last_backward(timeline, rank) for name, (timeline, rank) in traced.items()}
    first = min(begins.values(), default=0.0)
    return lanes(
        [
            Lane(name, tracks(timeline, rank, since=first if one_clock else begins[name]))
            for name, (timeline, rank) in traced.items()
        ],
        title=title,
        alt=f"A lane each for {', '.join(rows)}: the last backward pass, and the all-reduces beside it.",
        legend=_WORDS,
        unit="milliseconds since backward began",
        note=note,
    )


def last_backward(timeline: Timeline, rank: int) -> float:
    """When a rank's last backward pass began, in seconds: after its last forward of a DDP model, if there is one."""
    forward = last_forward(timeline, rank)
    later = spans_since(timeline, rank, forward)
    return min((span.start for span in later if span.stage is Stage.BACKWARD), default=forward)


def sent_and_waited(outcome: Outcome, rank: int) -> tuple[int, float]:
    """Since a rank's last backward began: how many buckets it has reduced, and how many milliseconds it has waited."""
    timeline = timeline_of(outcome)
    mine = spans_since(timeline, rank, last_backward(timeline, rank))
    return sum(span.bucket is not None for span in mine), 1e3 * seconds_waited(mine)
