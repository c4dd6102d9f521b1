"""Lesson 01's own: the picture, the ring step by step, what is drawn of memory, and what its predictions ask."""

import time

import pytest

from course_lib.lessons.dataparallel import lab
from realranks.draw import Box, Drawing, Text


def states(ranks: int) -> dict[int, list[list[float]]]:
    """A ring in one process: what every rank holds before the first step and after each."""
    held = [[2.0**rank] * ranks for rank in range(ranks)]
    seen = {rank: [list(held[rank])] for rank in range(ranks)}
    for step in range(2 * (ranks - 1)):
        sent = [held[rank][(rank - step) % ranks] for rank in range(ranks)]
        for rank in range(ranks):
            chunk = (rank - step - 1) % ranks
            held[rank][chunk] = sent[rank - 1] + (held[rank][chunk] if step < ranks - 1 else 0)
            seen[rank].append(list(held[rank]))
    return seen


def boxes(drawing: Drawing, look: str) -> list[Box]:
    return [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.look == look]


def test_a_ring_is_drawn_with_a_frame_per_step_and_ends_with_all_sums_everywhere():
    frames = lab.ring(states(4)).frames
    assert len(frames) == 1 + 2 * 3
    assert [len(boxes(frame.drawing, "sum")) for frame in frames] == [0, 0, 0, 4, 8, 12, 16]
    assert [len(boxes(frame.drawing, "odd")) for frame in frames] == [0, 4, 8, 8, 8, 4, 0]
    # In every step but the first frame, each rank has got one chunk: it is framed.
    assert [len(boxes(frame.drawing, "")) for frame in frames] == [0, 4, 4, 4, 4, 4, 4]


def test_the_sentence_of_a_step_says_what_was_sent_and_what_is_there_then():
    said = [frame.said for frame in lab.ring(states(4)).frames]
    assert (
        said[0] == "Before: ranks 0 to 3 have brought 1, 2, 4, 8, the same number in each of their 4 chunks."
    )
    assert said[1].endswith("rank 0 sends chunk 0, and rank 1 then has 3 there.")
    assert said[2].startswith("First lap, 2 of 3")
    assert "rank 0 sends chunk 3, and rank 1 then has 11 there" in said[2]
    assert said[3].endswith("Now each rank has the complete sum of one chunk.")
    assert said[4].startswith("Second lap, 1 of 3")
    assert said[6].endswith("All ranks have the sums of all chunks.")


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_ring_of_any_size_can_be_stepped_through(ranks):
    stepper = lab.ring(states(ranks))
    assert len(stepper.frames) == 2 * ranks - 1
    assert len(boxes(stepper.frames[-1].drawing, "sum")) == ranks**2


def test_a_ring_that_gives_other_sums_than_all_reduce_is_called_different():
    right = {"same": True, "sent": 1.5}
    assert "the same sums" in lab.compared({0: right, 1: right})
    assert "different sums on ranks [1]" in lab.compared({0: right, 1: {"same": False, "sent": 1.5}})


def test_bars_say_what_the_busiest_sends():
    measured = lab.draw_busiest({rank: {"same": True, "sent": 1.5 + rank / 100} for rank in range(4)})
    assert measured.alt.startswith(
        "device 0 to all others 3.0; a ring, 2(N-1)/N 1.5; all_reduce, measured 1.5"
    )
    assert "measured" not in lab.draw_busiest({0: {"same": True, "sent": None}}).alt


def test_what_is_held_is_drawn_one_part_behind_the_other():
    drawing = lab.draw_held(
        [{"weights": 2**20, "Adam": 2**21}], {0: {"weights": 2**20, "DDP's buckets": 2**20}}
    )
    assert drawing.alt == "In MiB: device 0 3; rank 0 2"
    assert [text.text for text in drawing.shapes if isinstance(text, Text) and text.size == 12][1:] == [
        "weights",
        "DDP's buckets",
        "Adam",
    ]
    weights, adam = boxes(drawing, "forward")[0], boxes(drawing, "optimizer")[0]
    assert adam.x == pytest.approx(weights.x + weights.width)
    assert adam.width == pytest.approx(2 * weights.width)


def test_predictions_about_threads_are_decided_by_what_was_measured():
    out = {"cores": {0: 1.1}, "beside": {0: True}}
    second_only = lab.in_parallel(loops=False, multiplication=True)
    assert second_only(out)
    assert not lab.in_parallel(loops=True, multiplication=True)(out)
    assert not lab.in_parallel(loops=False, multiplication=False)(out)


def test_a_thread_runs_during_a_call_that_releases_the_lock_and_two_sleepers_use_no_core():
    assert lab.another_thread_runs_during(lambda: time.sleep(0.05))
    assert lab.processor_use(lambda: time.sleep(0.02), lambda: time.sleep(0.02)) < 0.9
