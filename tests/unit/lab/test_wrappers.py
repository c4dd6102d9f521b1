"""Lesson 07: what its pictures say of what the ranks have found; tests/integration has the ranks."""

import pytest

from course_lib.lessons.wrappers.lab import (
    MODES,
    PLACES,
    boundary,
    count_stages,
    draw_places,
    draw_steps,
    draw_ways,
    ended,
)
from realranks.outcome.outcome import Collective, DDPStage


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        (([1.0, 2.0, 2.0], [1.0, 2.0, 2.0]), (True, "mean")),
        (([1.0, 1.0, 1.0], [2.0, 3.0, 3.0]), (False, "local")),
        (([1.0, 1.0, "no"], [1.0, 3.0, "no"]), (True, "local, then raises")),
        (([1.0, "no"], [1.0, "no"]), (True, "raises")),
    ],
)
def test_a_parameter_is_equal_or_not_and_its_gradient_averaged_or_not(ranks, said):
    assert ended(ranks) == said


def test_a_place_shows_its_numbers_and_the_error():
    drawing = draw_steps(([1.0, 1.0, "waited"], [2.0, 3.0, "waited"]), "in a head")
    assert drawing.title == "in a head: not equal; .grad each rank's own, then an error"
    assert drawing.alt == "rank 0: weight 1, .grad 1.0, waited; rank 1: weight 2, .grad 3.0, waited"
    assert drawing.svg().count("raises") == 2


def test_all_places_have_a_row():
    mean, local = [1.0, 2.0], ([1.0, 1.0, "waited"], [2.0, 3.0, "waited"])
    found = [
        {(name, mode): local[rank] if name == PLACES[-1] else mean for name in PLACES for mode in MODES}
        for rank in (0, 1)
    ]
    drawing = draw_places(found)
    assert drawing.alt.count("equal; mean, mean, mean") == len(PLACES) - 1
    assert drawing.alt.endswith(
        f"{PLACES[-1]}: not equal{'; local, then raises'}{', local, then raises' * 2}"
    )
    assert ">1 3 !<" in drawing.svg()


def test_where_the_wrapper_is_needed_is_counted():
    found = {
        ("default", buffers, different): {
            "two_ddp": "raises" if different else "right",
            "the_forums": "right",
            "one_wrapper": "right",
        }
        for buffers in (False, True)
        for different in (False, True)
    }
    drawing = draw_ways(found)
    assert drawing.title == "A wrapper is needed in 2 of 4 kinds of step"
    assert "default, different paths: raises, raises, right, right, right, right" in drawing.alt


def test_the_boundary_has_an_arrow_through_and_one_around():
    assert boundary().svg().count("stroke-dasharray") >= 2
    assert "ddp.module.encode(x) passes by" in boundary().alt


def test_what_is_sent_is_counted_before_and_after_a_barrier():
    def sent(op, stage=DDPStage.NONE):
        return Collective("0", 1, op, (), (), True, stage=stage)

    buffers, gradients = sent("broadcast", DDPStage.BUFFERS), sent("all_reduce", DDPStage.GRADIENTS)
    records = [sent("broadcast"), buffers, gradients, sent("barrier"), buffers, buffers]
    assert count_stages(records) == [{"buffers": 1, "gradients": 1}, {"buffers": 2}]
