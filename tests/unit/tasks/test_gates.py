"""The gate of a task: what is said of the first rank whose observation is not of the kind asked for."""

import itertools

import pytest

from course_lib.tasks.task import Task, Trial, gate
from course_lib.tasks.toys import all_or_odd, is_odd, number, odd, whole_number


class _Whole(Task):
    name = "lesson.whole"
    gives_number = gate("Every rank returns a number.")


class _Part(Task):
    name = "lesson.part"
    gives_counts = gate("Every rank counts.", "with {case}, rank {rank} gave {odd}", of="count")


def _said(task, *seen):
    (check,) = task.checks
    assert check.gate
    miss = check.judge(task, Trial(len(seen), {"n": 3, "text": "{odd}"}, None, dict(enumerate(seen))))
    return miss and miss.observed


def test_a_gate_is_open_where_every_observation_is_of_its_kind():
    assert _said(_Whole(), 1.0, 0.0) is None
    assert _said(_Whole(), [1.0, 2.0], []) is None
    assert _said(_Part(), {"count": 1}, {"count": [2, 3]}) is None


def test_the_first_rank_that_is_odd_is_named_with_what_it_returned():
    assert _said(_Whole(), 1.0, odd("x"), odd("y")) == "rank 1 of 3 returned str: 'x'"


def test_a_gate_looks_at_a_part_and_says_it_in_its_own_words():
    # What a case or an answer says may have braces of its own.
    assert _said(_Part(), {"count": odd("{case}")}) == "with n=3, text={odd}, rank 0 gave str: '{case}'"


def test_in_a_list_of_observations_or_parts_each_is_looked_at():
    assert _said(_Whole(), [1.0, odd(None)]) == "rank 0 of 1 returned None (is a return missing?)"
    assert "rank 0 gave str: 'x'" in _said(_Part(), [{"count": 1}, {"count": odd("x")}])
    assert "rank 0 gave str: 'x'" in _said(_Part(), {"count": [1, odd("x")]})


def test_parts_are_a_list_or_the_first_odd_one_among_them():
    assert all_or_odd(map(number, (1, 2.5))) == [1.0, 2.5]
    # An answer may go on without end behind what is odd.
    assert all_or_odd(map(number, itertools.chain([1], itertools.repeat("x")))) == odd("x")


def test_a_whole_number_may_be_written_as_a_float():
    assert whole_number(3.0) == 3
    assert isinstance(whole_number(3.0), int)


@pytest.mark.parametrize("value", [2.5, float("inf"), float("nan"), None, "3"])
def test_what_is_no_whole_number_is_odd(value):
    assert is_odd(whole_number(value))
