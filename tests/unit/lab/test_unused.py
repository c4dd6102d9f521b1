"""Lesson 08: its verdicts, as functions and as pictures; tests/integration runs graphs on real ranks."""

import pytest

from course_lib.lessons.unused.lab import (
    GRAPHS,
    HANGS,
    WAYS,
    draw_graphs,
    draw_steps,
    judged,
    own,
    right,
    worst,
)

LATE = "Expected to have finished reduction in the prior iteration before starting a new one"


@pytest.mark.parametrize(
    ("heads", "alone", "mean"),
    [
        (("left", "left"), ([1, 1, None], [3, 3, None]), [2, 2, 0]),
        (("left", "right"), ([1, 1, None], [3, None, 3]), [2, 0.5, 1.5]),
        (("both", "left"), ([2, 1, 1], [3, 3, None]), [2.5, 2, 0.5]),
        (("both", "both"), ([2, 1, 1], [6, 3, 3]), [4, 2, 2]),
    ],
)
def test_the_mean_counts_a_missing_gradient_as_zero(heads, alone, mean):
    assert (own(heads[0], 1), own(heads[1], 3)) == alone
    assert right(heads) == mean


def test_a_step_is_right_silent_raises_or_hangs():
    steps = [["left", "left", "left"], ["right", "right", "right"]]
    found = [[[2, 0.5, 1.5], [1, 1, None], LATE], [[2, 0.5, 1.5], [3, None, 3]]]
    ends = judged(steps, found)
    assert ends == [["right", "silent", "raises"], ["right", "silent", "hangs"]]
    assert worst(ends) == ["right", "silent", "hangs"]
    assert judged(steps, [[], [LATE]]) == [["hangs"], ["raises"]]


def test_a_picture_says_how_each_step_ended_and_quotes_each_error_once():
    steps = [["left", "left", "left"]] * 2
    drawing = draw_steps("default", steps, [[[1, 1, None], LATE], [[3, 3, None], LATE]])
    assert "rank 0, step 0, left: wrong, without an error; rank 0, step 1, left: raises" in drawing.alt
    assert "rank 1, step 2, left: is not reached" in drawing.alt
    assert drawing.svg().count(f"! {LATE}") == 1


def test_the_title_of_twelve_graphs_counts_silent_steps():
    found = [
        {
            (name, way): [[1 + 2 * rank, 1, None], LATE]
            for name in GRAPHS
            for way in WAYS
            if (name, way) != HANGS
        }
        for rank in (0, 1)
    ]
    drawing = draw_graphs(found)
    assert drawing.title == "A head is never used: by default 1 silent wrong step, then an error"
    assert "rank 0 uses one head more, default: hangs;" in drawing.alt
