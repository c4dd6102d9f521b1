"""Lesson 10: its loop as numbers and as pictures; tests/integration holds the numbers against DDP."""

import pytest

from course_lib.lessons.accumulation.lab import Divide, Loop, NoSync, computed, draw_clips, draw_loop, verdict

ARTICLE = Loop(zero_inside=True, divide=Divide.NOTHING, no_sync=NoSync.NONE)


@pytest.mark.parametrize(
    ("loop", "steps", "said"),
    [
        (Loop(), [(2222,), (2222,)], "right: a 2 for each micro-batch"),
        (Loop(no_sync=NoSync.NONE), [(2222,), (2222,)], "right: a 2 for each micro-batch"),
        (ARTICLE, [(8000,), (8000,)], "wrong: a micro-batch with the digit 0 is missing"),
        (Loop(divide=Divide.NOTHING), [(8888,), (8888,)], "wrong: 8 where a 2 is right"),
        (Loop(no_sync=NoSync.ALL), [(1111,), (3333,)], "wrong: the ranks differ, so nothing was reduced"),
        (Loop(short=True), [(2222, 220000)] * 2, "right: a 2 for each micro-batch"),
        (Loop(short=True, divide=Divide.K), [(2222, 110000)] * 2, "wrong: 1 where a 2 is right"),
        (Loop(k=1, zero_inside=True), [(2,)] * 2, "right: a 2 for each micro-batch"),
    ],
)
def test_the_digits_of_a_step_say_what_is_wrong(loop, steps, said):
    seen = computed(loop)
    assert [each.steps for each in seen] == steps
    assert verdict(loop, seen) == said


def test_without_a_step_at_the_end_the_short_group_stays_in_grad():
    loop = Loop(short=True, step_at_end=False)
    seen = computed(loop)
    assert [(each.steps, each.left) for each in seen] == [((2222,), 110000), ((2222,), 330000)]
    assert verdict(loop, seen) == "wrong: the last micro-batches have no step, and no reduction"
    synced = Loop(short=True, step_at_end=False, no_sync=NoSync.NONE)
    assert verdict(synced, computed(synced)) == "wrong: the last micro-batches have no step"


def test_the_strip_has_one_reduction_and_brackets_around_the_others():
    assert draw_loop().alt == (
        "zero, micro-batch 0, micro-batch 1, micro-batch 2, micro-batch 3, those before it under no_sync, reduce, "
        "clip, step"
    )
    assert draw_loop(ARTICLE).alt.count("zero, micro-batch") == draw_loop(ARTICLE).alt.count("reduce") == 4
    assert draw_loop(Loop(no_sync=NoSync.ALL)).alt.endswith("micro-batch 3, these under no_sync, clip, step")


def test_the_longest_strip_fits_into_its_picture():
    drawing = draw_loop(Loop(short=True, zero_inside=True))
    assert max(shape.x + shape.width for shape in drawing.shapes if hasattr(shape, "look")) <= drawing.width


@pytest.mark.parametrize(("before", "direction"), [((0.9, 0.3), "another"), ((0.49, 0.105), "the same")])
def test_the_title_of_the_clipped_gradients_comes_from_the_run(before, direction):
    drawing = draw_clips((1.6, 1.2), (4.0, 0.0), before, (0.98, 0.21))
    assert drawing.title == f"Clipped before the reduction, the mean has {direction} direction"
    assert "mean of both: (2.80, 0.60)" in drawing.alt
