"""Lesson 09: what its pictures say of records that ranks could have made; tests/integration has real ones."""

import pytest

from course_lib.lessons.synchronised.lab import CHANGES, draw_sent, ended, is_same, lanes_of_equal


def record(**by_moment):
    """What a rank's weight is at each moment; nothing else is held."""
    return {moment.replace("_", " "): {"weights": weight} for moment, weight in by_moment.items()}


CALM = [record(built=1.0, wrapped=1.0, step_1_is_over=2.0)] * 2


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ((2.0, 2.0), "equal, as without the change"),
        ((2.5, 2.5), "equal, not as without the change"),
        ((2.0, 3.0), "different"),
    ],
)
def test_the_end_is_told_in_words(last, said):
    changed = [record(built=1.0, wrapped=1.0, step_1_is_over=weight) for weight in last]
    assert ended(changed, CALM) == f"weights end {said}"


def test_what_nobody_has_is_neither_equal_nor_different():
    assert is_same([record(built=None)] * 2, "built", "weights") is None
    assert is_same([record(built=1.0), record(built=None)], "built", "weights") is False
    assert is_same([record(built=1.0)] * 2, "built", "weights") is True


def test_the_lanes_mark_the_moment_of_the_change_and_name_those_that_differ():
    changed = [record(built=1.0, wrapped=weight, step_1_is_over=weight) for weight in (1.0, 2.0)]
    drawing = lanes_of_equal(changed, CALM, "adds 1", "wrapped")
    assert drawing.title == "Rank 1 adds 1 (▼): weights end different"
    assert drawing.alt == "weights differ at: wrapped, step 1 is over"
    words = [
        shape.text
        for shape in drawing.shapes
        if getattr(shape, "text", "") in {"=", "≠", "built", "▼ wrap", "1 S"}
    ]
    assert words == ["=", "≠", "≠", "built", "▼ wrap", "1 S"]


def test_the_picture_of_forwards_says_which_were_followed_by_buffers():
    sent = {(before, now): before == "a" or now == before == "c" for before in "abc" for now in "abc"}
    assert draw_sent(sent).alt == "after a: sent; after b: not sent; after c: some"


def test_every_change_has_a_moment():
    assert all(moments for _, moments in CHANGES.values())
