"""Declared checks: what is said of the first rank that differs from the oracle, and what is recognised by its names."""

from types import SimpleNamespace

import pytest

from course_lib.tasks.compared import Compared, at_most, compared, fits, gap, same_everywhere
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Trial

NEAR = Tolerance(0.1)


class _Sums(Compared):
    """Observations are a sum and what it was after each step; misconceptions decide the sum alone."""

    name = "lesson.sums"
    tolerance = NEAR
    misconceptions = (SimpleNamespace(id="doubled"), SimpleNamespace(id="own"))

    right = compared(
        "It is right.",
        "on {gang}, with n={n}, rank {rank} of {ranks} has {seen:g}, not {right:g}; off by {gap:g}",
        of="sum",
    )
    steps = compared(
        "So are its steps.", "rank {rank}, step {number}: {seen} ({gap:g})", of="steps", each=True
    )
    equal = same_everywhere("All are equal.", "rank {rank} differs by {gap:g}", of=("steps", 1), known="own")
    few = at_most(
        "It is small.", "rank {rank}: {seen}", "large", of="sum", limit=lambda case, rank: case["n"] + rank
    )


def _trial(*seen, **oracle):
    right = [{"sum": 3.0, "steps": [1.0, 3.0]}] * len(seen)
    ways = {name: [{"sum": one} for one in sums] for name, sums in oracle.items()}
    observed = {rank: {"sum": value, "steps": [1.0, value]} for rank, value in enumerate(seen)}
    return Trial(len(seen), {"n": 5}, {"right": right, **ways}, observed)


def _said(check, *seen):
    miss = getattr(_Sums(), check)(_trial(*seen))
    return miss and (miss.observed, miss.misconception)


def test_nothing_is_said_where_all_is_near_enough():
    for check in ("right", "steps", "few"):
        assert _said(check, 3.05, 2.95) is None
    assert _said("equal", 3.05, 3.05) is None


def test_the_first_rank_that_differs_is_named():
    assert _said("right", 3.0, 4.0, 9.0) == ("on 3 ranks, with n=5, rank 1 of 3 has 4, not 3; off by 1", None)


def test_lists_are_compared_item_by_item_over_all_ranks():
    assert _said("steps", 3.0, 4.5) == ("rank 1, step 2: 4.5 (1.5)", None)
    short = _trial(3.0)
    short.seen[0]["steps"] = [1.0]
    assert _Sums().steps(short).observed == "rank 0, step 2: None (inf)"


def test_ranks_are_compared_with_rank_0_more_closely():
    assert _said("equal", 3.0, 3.05)[1] == "own"


def test_more_than_the_limit_of_a_rank_is_too_much():
    assert _said("few", 6.0) == ("rank 0: 6.0", "large")
    assert _said("few", 5.0, 6.0) is None


def test_a_check_may_be_demanded_of_some_cases_only():
    check = compared("It is right.", "wrong", of="sum", when=lambda case: case["n"] > 5)
    assert check(_Sums(), _trial(4.0)) is None


def test_a_misconception_may_depend_on_the_trial_and_the_rank():
    check = compared("It is right.", "wrong", of="sum", known=lambda trial, rank: f"rank_{rank}")
    assert check(_Sums(), _trial(3.0, 4.0)).misconception == "rank_1"


@pytest.mark.parametrize(
    ("seen", "named"),
    [((3.0, 3.0), None), ((6.0, 6.0), "doubled"), ((1.0, 2.0), "own"), ((9.0, 9.0), None)],
)
def test_the_name_under_which_the_oracle_has_what_was_seen_is_recognised(seen, named):
    # The steps of a misconception are not known: they are not looked at.
    trial = _trial(*seen, own=[1.0, 2.0], doubled=[6.0, 6.0])
    assert _Sums().recognise([trial]) == named


def test_a_misconception_that_makes_no_difference_to_a_case_gives_what_is_right():
    trials = [_trial(6.0, doubled=[6.0]), _trial(3.0)]
    assert _Sums().recognise(trials) == "doubled"


def test_what_fits():
    assert fits({"a": [1.05], "b": "x"}, {"a": [1.0]}, NEAR)
    assert not fits({"b": 1}, {"a": 1}, NEAR)
    assert not fits([1.0], [1.0, 2.0], NEAR)
    assert not fits(None, 1.0, NEAR)
    assert not fits([float("nan")], [1.0], NEAR)
    assert not fits("1.0", 1.0, NEAR)


def test_how_far_apart():
    assert gap([1.0, 4.0], [1.0, 2.5]) == 1.5
    for other in (None, float("nan"), "3", [1.0]):
        assert gap(other, 1.0) == float("inf")
