"""Lesson 05's pictures, its arithmetic, its explorer and what its predictions ask, mostly on plain data."""

from itertools import product
from types import SimpleNamespace

import pytest

from course_lib.lessons.stragglers.lab import (
    after_join,
    always_late_took,
    draw_shadows,
    expected_delay,
    expected_maximum,
    explore_lateness,
    late_rank,
    lost,
    measured,
    raised_on,
    same_and_right,
    same_and_wrong,
)
from course_lib.lessons.stragglers.lateness import always, by_chance, by_turns, gloos_reason
from realranks.cells.run import run_quietly
from realranks.draw import Box
from realranks.draw.drawing import text_width


def test_the_question_is_asked_of_every_rank_and_its_length_does_not_answer_it():
    drawing = late_rank(ranks=4, late=2)
    asked = [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.text == "?"]
    assert len(asked) == 4
    assert len({round(box.x + box.width) for box in asked}) == 1
    assert "Rank 2 begins its forward and backward late; ranks 0, 1, 3" in drawing.alt


def test_delays_by_turns_even_out_only_over_a_whole_turn():
    late = by_turns(ranks=4, steps=8, milliseconds=20)
    assert [sum(mine) for mine in late] == [40] * 4
    assert [lost(late, every) for every in (1, 2, 4, 8)] == [160, 80, 40, 40]


def test_a_rank_that_is_always_late_costs_the_same_however_seldom_ranks_reduce():
    late = always(2, ranks=4, steps=16, milliseconds=20)
    assert {lost(late, every) for every in (1, 4, 16)} == {320}


def test_chance_is_the_same_for_everybody_who_asks():
    assert by_chance(4, 16, 20) == by_chance(4, 16, 20)
    assert 0 < sum(map(sum, by_chance(4, 16, 20))) < 4 * 16 * 20


@pytest.mark.parametrize("every", [1, 2])
def test_the_expected_delay_is_the_mean_over_all_that_can_happen(every):
    ranks, chance = 2, 1 / 4
    mean = 0.0
    for happens in product((0, 1), repeat=ranks * every):
        odds = chance ** sum(happens) * (1 - chance) ** (len(happens) - sum(happens))
        late = [[20.0 * each for each in happens[rank * every : (rank + 1) * every]] for rank in range(ranks)]
        mean += odds * lost(late, every) / every
    assert expected_delay(every, ranks, chance, 20) == pytest.approx(mean)


def test_the_expected_maximum_is_the_mean_over_all_draws():
    times = [1.0, 2.0, 10.0]
    draws = [max(pair) for pair in product(times, repeat=2)]
    assert expected_maximum(times, 2) == pytest.approx(sum(draws) / len(draws))
    assert expected_maximum(times, 1) == pytest.approx(sum(times) / 3)


def test_everybody_waits_in_the_shadow_of_whoever_is_later():
    drawing = draw_shadows([[20, 0], [0, 0]], every=1, step=4)
    lanes = [shape for shape in drawing.shapes if isinstance(shape, Box)]
    by_look = {look: sum(box.look == look for box in lanes) for look in ("sleep", "even", "waiting")}
    assert by_look == {"sleep": 1 + 1, "even": 4 + 1, "waiting": 1 + 1}  # one of each is in the legend
    sleep, wait = (next(box for box in lanes if box.look == look) for look in ("sleep", "waiting"))
    assert sleep.width == pytest.approx(wait.width)
    assert "20 on rank 0, 0 on rank 1; and every rank is 20 later" in drawing.alt
    assert drawing.title == "2 steps: late by 20 ms at most, all end 20 ms later (computed)"
    assert text_width(drawing.title, 14) + text_width(measured(99, 0)) < drawing.width - 20


def complete_when_rank_1_is_late() -> int:
    """Runs on every rank of two."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from course_lib.lessons.stragglers.lateness import complete_before

    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(3)))
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.001)
    return complete_before(ddp, late=1)


def test_no_all_reduce_is_complete_before_the_late_rank_has_joined():
    assert run_quietly(complete_when_rank_1_is_late, ranks=2).values == {0: 0, 1: 0}


def test_gloos_reason_is_the_same_in_every_run_and_what_is_unknown_is_not_renamed():
    for said in (
        "writev [::1]:7: Broken pipe",
        "Read error [::1]: Connection reset by peer. remote worker crashing",
    ):
        assert gloos_reason(said) == "lost its connection"
    assert gloos_reason("Timed out waiting 600ms for recv operation to complete") == "timed out waiting"
    assert gloos_reason("Invalid tensor") == "Invalid tensor"


def test_predictions_look_at_what_the_ranks_have():
    out = {"took": {0: {("rank 2 is always late", 4): 331.0}}}
    assert always_late_took(320, 100000)(out)
    assert not always_late_took(150, 320)(out)
    joined = SimpleNamespace(values={0: (True, False), 1: (True, False)})
    assert after_join(True, False)(joined)
    assert not after_join(True, True)(joined)
    assert raised_on(0)(SimpleNamespace(errors={0: "late"}))
    assert not raised_on(0, 1)(SimpleNamespace(errors={0: "late"}))
    right = {"same": {0: True}, "errors": {0: {2: (0.001, 0.0)}}}
    wrong = {"same": {0: True}, "errors": {0: {2: (0.3, 0.0)}}}
    assert (same_and_right(right), same_and_wrong(right)) == (True, False)
    assert (same_and_right(wrong), same_and_wrong(wrong)) == (False, True)


@pytest.mark.parametrize(
    ("later", "computed", "told"),
    [(318.4, 320, "measured: 318 ms"), (4.0, 0, "measured: 4 ms"), (-11.4, 320, "busy"), (900, 320, "busy")],
)
def test_what_is_measured_is_told_in_the_unit_of_what_is_computed_or_not_at_all(later, computed, told):
    assert told in measured(later, computed)


def test_the_explorer_measures_on_real_ranks_what_it_has_computed():
    explorer = explore_lateness()
    assert "all end 220 ms later (computed)" in repr(explorer)
    bundle = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/html"] == explorer.static.html()
    assert "measured" not in explorer.picture.value
    explorer.ranks.value = 2
    assert "measured: " in explorer.picture.value
    assert "rank 1" in explorer.picture.value
    assert "rank 2" not in explorer.picture.value
