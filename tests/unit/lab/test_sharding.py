"""Lesson 17: the bytes of each stage, and what its pictures say."""

import pytest

from course_lib.lessons.sharding.lab import (
    Setting,
    draw_gigabytes,
    draw_stages,
    draw_whole,
    explore_stages,
    three_ways,
)
from realranks.cells.run import run_quietly
from realranks.outcome.outcome import Kind


def test_the_bytes_are_those_of_the_zero_paper():
    """Its Figure 1: 7.5 billion parameters, 64 ranks, mixed precision."""
    paper = Setting(billions=7.5, ranks=64, mixed=True)
    totals = {
        stage: round(sum(paper.gigabytes(stage).values()), 1)
        for stage in ("DDP", "ZeRO 1", "ZeRO 2", "ZeRO 3")
    }
    assert totals == {"DDP": 120.0, "ZeRO 1": 31.4, "ZeRO 2": 16.6, "ZeRO 3": 1.9}


@pytest.mark.parametrize(
    ("setting", "end"),
    [
        (Setting(), "fits with ZeRO 1, ZeRO 2, ZeRO 3"),
        (Setting(ranks=2), "fits with ZeRO 2, ZeRO 3"),
        (Setting(billions=70, ranks=1024), "fits with ZeRO 3"),
        (Setting(billions=400, ranks=1), "does not fit"),
    ],
)
def test_a_title_says_what_fits_on_a_gpu(setting, end):
    assert draw_gigabytes(setting).title.endswith(f": {end}")


def test_the_controls_choose_what_is_drawn():
    explorer = explore_stages()
    explorer.ranks.value, explorer.mixed.value = 64, True
    explorer.billions.value = 7.5
    assert "7.5 billion parameters, Adam, mixed precision, 64 ranks" in explorer.picture.value


def test_every_rank_has_a_column_in_every_stage():
    assert draw_stages(ranks=4).svg().count(">3</text>") == 4


def test_on_real_ranks_only_layers_that_are_sharded_one_by_one_are_whole_one_by_one():
    outcome = run_quietly(three_ways, ranks=2)
    assert outcome.kind is Kind.OK, repr(outcome)
    assert outcome.values[0] == outcome.values[1]
    drawing = draw_whole(outcome.values[0])
    assert drawing.title == "Whole at once, at most: 1, 5, 5 of 5 layers"
    assert "per layer: at most 1 of 5 whole at once; 10 all-gather, 5 reduce-scatter" in drawing.alt
