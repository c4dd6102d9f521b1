"""Lesson 08's tasks: which way is right for which schedule; tests/integration asks real ranks the same."""

from collections import defaultdict
from random import Random

import pytest

from course_lib.lessons.unused.tasks.schedules import MISTAKES, ORDER, best, is_plain, is_right
from course_lib.tasks import find_task


def best_for(case, *wrong):
    return best(case["steps"], case["weight_decay"], wrong)


CHOOSE, MIXTURE = find_task("unused.choose"), find_task("unused.mixture")
SEEDS = range(40)


@pytest.mark.parametrize(
    ("steps", "weight_decay", "way"),
    [
        ([[["both"], ["both"]], [["both"], ["both"]]], 0.1, "default"),
        ([[["left", "both"], ["both"]], [["right", "both"], ["both"]]], 0.1, "default"),
        ([[["left"], ["left"]], [["both"], ["both"]]], 0.1, "static_graph"),
        ([[["left"], ["left"]], [["left"], ["left"]]], 0.1, "static_graph"),
        ([[["left"], ["left", "left"]], [["right"], ["right", "right"]]], 0.1, "static_graph"),
        ([[["left", "left"], ["left"]], [["right", "right"], ["right"]]], 0.1, "touch"),
        ([[["both"], ["left"]], [["both"], ["both"]]], 0.1, "touch"),
        ([[["both"], ["left"]], [["both"], ["left"]]], 0.0, "touch"),
        ([[["both"], ["right", "left"]], [["both"], ["left", "left"]]], 0.1, "touch"),
        ([[["both"], ["left"]], [["both"], ["left"]]], 0.1, "find_unused_parameters"),
        ([[["left", "left"], ["left"]], [["left", "left"], ["left"]]], 0.1, "find_unused_parameters"),
    ],
)
def test_the_best_way_is_the_first_one_that_is_right(steps, weight_decay, way):
    assert best(steps, weight_decay) == way


@pytest.mark.parametrize("world_size", CHOOSE.world_sizes)
def test_every_seed_draws_schedules_that_want_each_way_and_tell_mistakes_from_each_other(world_size):
    for seed in SEEDS:
        cases = list(CHOOSE.cases(world_size, Random(seed)))
        assert {best_for(case) for case in cases} == set(ORDER)
        assert all(best_for(case) == "default" or is_plain(case["steps"]) for case in cases)
        assert len(cases) < 20
        told = defaultdict(set)
        for wrong in ("", *MISTAKES):
            told[tuple(best_for(case, wrong) for case in cases)].add(wrong.partition("/")[0])
        assert all(len(names) == 1 for names in told.values())


def test_every_misconception_about_the_ways_is_a_way_to_decide_wrongly():
    ids = {item.id for item in CHOOSE.misconceptions}
    assert {name.partition("/")[0] for name in MISTAKES} == ids - {"not_the_first"}
    assert CHOOSE.by_severity(MISTAKES) == list(MISTAKES)


def test_whatever_is_got_wrong_find_unused_parameters_is_left():
    for case in CHOOSE.cases(2, Random(1)):
        assert is_right(ORDER[-1], case["steps"], case["weight_decay"], MISTAKES)


@pytest.mark.parametrize("world_size", MIXTURE.world_sizes)
def test_ranks_of_the_mixture_have_different_numbers_of_tokens_and_other_experts(world_size):
    for seed in SEEDS:
        kinds = set()
        for case in MIXTURE.cases(world_size, Random(seed)):
            sizes = [len(tokens) for tokens in case["wanted"]]
            used = [{expert for token in tokens for expert in token} for tokens in case["wanted"]]
            kinds.add(case["kind"])
            assert (case["kind"] == "none") == (0 in sizes)
            assert (case["kind"] == "one_has_all") == (max(map(len, used)) == 4)
            assert case["kind"] != "others" or len(set(sizes)) == world_size
            assert all(len(set(token)) == 2 for tokens in case["wanted"] for token in tokens)
        assert kinds == {"others", "one_has_all", *(["none"] if world_size > 1 else [])}
