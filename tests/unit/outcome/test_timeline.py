"""Timelines from made-up events; the times are microseconds."""

import json
import re
from typing import Any

import pytest

from realranks.outcome.spans import lanes_of
from realranks.ranks.inside.tracing import BACKWARD, SYNCHRONIZE, TRACED, WAIT
from realranks.watch import Stage, Timeline

GRADIENT = "autograd::engine::evaluate_function: AddmmBackward0"
ACCUMULATE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
FORWARD = "DistributedDataParallel.forward"


def event(
    name: str, start: float, end: float, thread: int = 1, dtypes: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "name": name,
        "start_ns": int(start * 1000),
        "duration_ns": int((end - start) * 1000),
        "thread": thread,
        "dtypes": list(dtypes),
    }


def timeline(*events: dict[str, Any]) -> Timeline:
    return Timeline.from_traces({0: [event(TRACED, 0, 10_000), *events]})


STEP = (
    event(FORWARD, 100, 200),
    event(BACKWARD, 300, 900),
    event(GRADIENT, 310, 340),
    event(ACCUMULATE, 350, 400),
    event("gloo:all_reduce", 390, 600, dtypes=("float",)),
    event(GRADIENT, 410, 440),
    event(ACCUMULATE, 450, 500),
    event("gloo:all_reduce", 490, 850, dtypes=("float",)),
    event("aten::copy_", 860, 890),
)


def test_the_all_reduces_of_a_backward_are_its_buckets():
    found = timeline(*STEP)
    assert [span.name for span in found.buckets(0)] == ["bucket 0", "bucket 1"]
    assert found.buckets(0)[0].duration == pytest.approx(210e-6)


def test_buckets_are_counted_anew_in_every_backward():
    later = [{**one, "start_ns": one["start_ns"] + 1_000_000} for one in STEP]
    assert [span.bucket for span in timeline(*STEP, *later).buckets(0)] == [0, 1, 0, 1]


def test_the_map_of_used_parameters_is_no_bucket():
    used = event("gloo:all_reduce", 495, 700, dtypes=("int",))
    assert len(timeline(*STEP, used).buckets(0)) == 2


def test_an_all_reduce_in_a_backward_without_ddp_is_no_bucket():
    assert timeline(*STEP[1:]).buckets(0) == ()


def test_an_all_reduce_of_a_layer_of_the_model_is_no_bucket():
    inside = event("gloo:all_reduce", 320, 335, dtypes=("float",))
    assert len(timeline(*STEP, inside).buckets(0)) == 2


def test_buckets_reduced_after_the_last_gradient_are_counted_too():
    late = (*STEP[:4], event("gloo:all_reduce", 510, 600, dtypes=("float",)))
    assert [span.bucket for span in timeline(*late).buckets(0)] == [0]


def test_waiting_in_backward_begins_after_the_last_gradient():
    # from the last gradient (500) until the last bucket is there (850)
    assert timeline(*STEP).waiting(0) == pytest.approx(350e-6)


def test_a_thread_that_computes_does_not_wait():
    busy = event("aten::mul", 600, 700)
    assert timeline(*STEP, busy).waiting(0) == pytest.approx(250e-6)


def test_a_call_that_waits_for_a_collective():
    call = (event("gloo:all_reduce", 100, 400), event(WAIT, 110, 405))
    assert timeline(*call).waiting(0) == pytest.approx(295e-6)
    assert timeline(*call, event("aten::copy_", 395, 400)).waiting(0) == pytest.approx(290e-6)


def test_a_collective_in_the_background_is_no_waiting():
    assert timeline(event("gloo:all_reduce", 100, 400)).waiting(0) == 0


def test_ddps_own_synchronization_waits_only_while_a_collective_is_under_way():
    call = (event(SYNCHRONIZE, 100, 400), event("gloo:broadcast", 200, 350))
    assert timeline(*call).waiting(0) == pytest.approx(150e-6)


def test_other_threads_do_not_count():
    assert timeline(event(WAIT, 100, 400, thread=2)).waiting(0) == 0


def test_overlapping_spans_of_a_stage_count_once():
    found = timeline(event("gloo:all_reduce", 100, 300), event("gloo:all_reduce", 200, 400))
    assert found.seconds(0, "communication") == pytest.approx(300e-6)


def test_the_repr_names_no_times():
    text = repr(timeline(*STEP))
    assert "Timeline of 1 ranks" in text
    assert "rank 0: 1 forward, 2 all-reduces of buckets" in text
    assert timeline(*STEP).summary().split()[-1] == "0.5"  # milliseconds of communication


def test_a_chrome_trace_has_everything(tmp_path):
    saved = json.loads(timeline(*STEP).save(tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [entry for entry in saved if entry["ph"] == "X"]
    assert {entry["cat"] for entry in spans} == {"forward", "backward", "waiting", "communication"}
    rows = {entry["tid"] for entry in spans if entry["name"].startswith("bucket")}
    assert len(rows) == 2  # they overlap: within one row spans would have to lie in each other
    assert 0 not in rows


def test_the_picture_has_a_lane_for_each_rank_and_a_look_for_each_stage():
    found = Timeline.from_traces({rank: [event(TRACED, 0, 1000), *STEP] for rank in (0, 1, 2)})
    svg = found.plot("Three ranks").svg()
    for said in ("Three ranks", "rank 0", "rank 1", "rank 2", "waiting for other ranks", "milliseconds"):
        assert f">{said}</text>" in svg
    assert svg.count("<title>bucket 0, ") == 3
    assert set(re.findall(r'<pattern id="ddp-\w+-(\w+)"', svg)) == {"rising", "level", "falling"}


def test_what_the_picture_says_in_words_has_no_times():
    once = Timeline.from_traces({0: [event(TRACED, 0, 1000), *STEP]})
    assert repr(once.plot()) == (
        "[What each rank did, and when: A lane for each of 1 ranks. rank 0: 1 forward, 2 all-reduces of buckets]"
    )


def test_collectives_that_overlap_are_drawn_in_lanes_of_their_own():
    (first,), (second,) = lanes_of(timeline(*STEP).buckets(0))
    assert first.end > second.start
    apart = timeline(event("gloo:all_reduce", 0, 10), event("gloo:all_reduce", 10, 20))
    assert len(lanes_of(span for span in apart.spans if span.stage is Stage.COMMUNICATION)) == 1


def test_the_legend_names_what_occurs_in_the_order_of_the_stages():
    svg = timeline(*STEP, event("Optimizer.step#SGD.step", 900, 950)).plot().svg()
    names = [
        "forward",
        "backward",
        "optimizer",
        "waiting for other ranks",
        "collective under way (number: bucket); a row each where they overlap",
    ]
    places = [svg.index(f">{name}</text>") for name in names]
    assert places == sorted(places)
    assert ">optimizer</text>" not in timeline(*STEP).plot().svg()


def test_stages_are_what_a_span_can_be():
    assert {span.stage for span in timeline(*STEP).spans} <= set(Stage)
