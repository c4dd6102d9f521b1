"""Lesson 10: its loop as numbers and as pictures; tests/integration holds the numbers against DDP."""

import pytest

from course_lib.lab.reducer import play
from course_lib.lessons.accumulation.lab import Divide, Loop, NoSync, draw_clips, draw_loop, verdict

ARTICLE = Loop(zero_inside=True, divide=Divide.NOTHING, no_sync=NoSync.NONE)


@pytest.mark.parametrize(
    ("loop", "grads", "said"),
    [
        (Loop(), [2222, 2222], "right: a 2 for each micro-batch"),
        (Loop(no_sync=NoSync.NONE), [2222, 2222], "right: a 2 for each micro-batch"),
        (ARTICLE, [8000, 8000], "wrong: a micro-batch with the digit 0 is missing"),
        (Loop(divide=Divide.NOTHING), [8888, 8888], "wrong: 8 where a 2 is right"),
        (Loop(no_sync=NoSync.ALL), [1111, 3333], "wrong: the ranks differ, so nothing was reduced"),
        (Loop(short=True), [22, 22], "right: a 2 for each micro-batch"),
        (Loop(short=True, divide=Divide.K), [11, 11], "wrong: 1 where a 2 is right"),
        (Loop(k=1, zero_inside=True), [2, 2], "right: a 2 for each micro-batch"),
        (Loop(k=1, short=True, step_at_end=False), [2, 2], "right: a 2 for each micro-batch"),
        (
            Loop(short=True, step_at_end=False),
            [11, 33],
            "wrong: no step follows the last micro-batches, and no reduction",
        ),
        (
            Loop(short=True, step_at_end=False, no_sync=NoSync.NONE),
            [22, 22],
            "wrong: no step follows the last micro-batches",
        ),
    ],
)
def test_the_digits_of_a_step_say_what_is_wrong(loop, grads, said):
    ranks = play((loop.order,), loop.model)[-1].ranks
    assert [rank.grad["weight"] for rank in ranks] == grads
    assert verdict(loop, ranks) == said


def test_the_title_counts_what_was_sent_and_the_longest_order_fits():
    assert draw_loop(Loop()).title == "right: a 2 for each micro-batch; all-reduces: 1"
    assert draw_loop(ARTICLE).title.endswith("is missing; all-reduces: 4")
    drawing = draw_loop(Loop(zero_inside=True))
    assert "zero, F no_sync, B, zero, F no_sync, B" in drawing.alt
    assert max(shape.x + shape.width for shape in drawing.shapes if hasattr(shape, "look")) <= drawing.width


@pytest.mark.parametrize(("before", "direction"), [((0.9, 0.3), "another"), ((0.49, 0.105), "the same")])
def test_the_title_of_the_clipped_gradients_comes_from_the_run(before, direction):
    drawing = draw_clips((1.6, 1.2), (4.0, 0.0), before, (0.98, 0.21))
    assert drawing.title == f"Clipped before the reduction, the mean has {direction} direction"
    assert "mean of both: (2.80, 0.60)" in drawing.alt
