"""Lesson 09: what becomes of a change on rank 1, on real ranks, and what the pictures are made of."""

import pytest

from course_lib.draw import Text
from course_lib.lab.synchronised import CHANGES, ChangeExplorer, what_travels

EQUAL, OTHER, DIFFER = (
    "weights end equal, as without the change",
    "weights end equal, not as without the change",
    "weights end different",
)
#: How weights end, by what rank 1 changes and when.
ENDS = {
    "weights": (EQUAL, DIFFER, DIFFER, DIFFER),
    "buffers": (EQUAL, EQUAL, EQUAL, EQUAL),
    "gradient": (OTHER, DIFFER, EQUAL),
    "momentum": (DIFFER, DIFFER),
    "learning rate": (DIFFER, DIFFER),
    "random seed": (OTHER, OTHER, OTHER),
    "loss": (OTHER,),
    "zero_grad": (OTHER, OTHER),
    "eval mode": (OTHER, OTHER),
}


@pytest.fixture(scope="module")
def explorer():
    return ChangeExplorer()


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_ends_as_the_lesson_says(explorer, what):
    explorer.what.value = what
    assert explorer.when.options == CHANGES[what][1]
    for moment, end in zip(CHANGES[what][1], ENDS[what], strict=True):
        explorer.when.value = moment
        assert f"Rank 1 {CHANGES[what][0]} (▼): {end}<" in explorer.picture.value


def test_where_no_kernel_runs_there_is_the_first_run(explorer):
    assert "Rank 1 adds 1 to its weight (▼): weights end different" in explorer.static.html()


def test_what_travels_is_what_four_ranks_hold():
    signs = [
        [shape.text for shape in frame.drawing.shapes if isinstance(shape, Text) and shape.text[-1] in "=≠"]
        for frame in what_travels().frames
    ]
    assert signs == [
        ["weights ≠", "buffers ≠"],
        ["weights =", "buffers ="],
        ["weights =", "buffers ="],
        ["weights =", "buffers ≠"],
        ["weights =", "buffers ≠", ".grad ="],
        ["weights =", "buffers ≠", ".grad =", "momentum ="],
        ["weights =", "buffers =", ".grad =", "momentum ="],
        ["weights =", "buffers ≠", ".grad =", "momentum ="],
    ]
