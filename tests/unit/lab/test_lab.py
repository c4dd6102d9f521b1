"""What lessons read from runs and draw of them, on made-up data; times are milliseconds."""

import pytest

from course_lib.lab.traces import timeline_of
from course_lib.lessons.buckets.lab import draw_backward, last_backward
from course_lib.lessons.stragglers.lab import draw_last_step, waited
from realranks.outcome.outcome import Outcome
from realranks.outcome.trace import TRACED, WAIT, TraceEvent
from tests.support.outcomes import outcome

GRADIENT = "autograd::engine::evaluate_function: AddmmBackward0"
FORWARD = "DistributedDataParallel.forward"


def event(name: str, start: float, end: float) -> TraceEvent:
    return {"name": name, "start_ns": int(start * 1e6), "duration_ns": int((end - start) * 1e6), "thread": 1}


def two_steps(late: float, waits: float) -> tuple[TraceEvent, ...]:
    """A step of 30 ms, and another that begins so late and ends with so long a wait."""
    second = 30 + late
    return (
        event(TRACED, 0, 1000),
        event(FORWARD, 0, 10),
        event(GRADIENT, 10, 20),
        event("Optimizer.step#SGD.step", 28, 30),
        event(FORWARD, second, second + 10),
        event(GRADIENT, second + 10, second + 20),
        event(WAIT, second + 20, second + 20 + waits),
    )


def traced(*by_rank: tuple[TraceEvent, ...]) -> Outcome:
    return outcome("ok", len(by_rank), trace_events=dict(enumerate(by_rank)))


OUT = traced(two_steps(late=0, waits=300), two_steps(late=300, waits=1))


def test_who_waited_in_the_last_step():
    assert waited(OUT, 0) == pytest.approx(0.3)
    assert waited(OUT, 1) == pytest.approx(0.001)


def test_a_late_forward_is_drawn_as_sleep():
    drawing = draw_last_step(OUT)
    assert "asleep before its forward rank 1;" in drawing.alt
    assert drawing.title == "Asleep: rank 1. Waiting in backward(): rank 0"
    svg = drawing.svg()
    assert svg.count(">asleep</text>") == 2  # in its bar, and in the legend
    assert "asleep</text>" not in draw_last_step(traced(two_steps(0, 5), two_steps(0, 5))).svg()


def test_backward_is_drawn_from_the_first_one_on_and_the_title_names_who_waits():
    timeline = timeline_of(OUT)
    assert last_backward(timeline, 0) == pytest.approx(0.040)
    assert last_backward(timeline, 1) == pytest.approx(0.340)
    drawing = draw_backward(OUT)
    bars = [shape.x for shape in drawing.shapes if getattr(shape, "look", "") == "backward"]
    fast, late, _ = bars  # the third is the legend's
    assert fast < late
    assert drawing.title == "Rank 0 waits longest in backward()"


def test_a_run_without_a_trace_is_refused():
    with pytest.raises(ValueError, match="not traced"):
        timeline_of(outcome())
