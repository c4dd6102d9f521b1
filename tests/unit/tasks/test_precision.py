"""When numbers agree up to a tolerance, and how much of it an oracle's own rounding may use up."""

import math

import pytest

from course_lib.tasks.precision import Tolerance, agree


@pytest.mark.parametrize(
    ("tolerance", "found", "right", "admitted"),
    [
        (Tolerance(0.5), 1.5, 1.0, True),
        (Tolerance(0.5), 0.5, 1.0, True),
        (Tolerance(0.5), 1.75, 1.0, False),
        (Tolerance(0.0, 0.25), 5.0, 4.0, True),
        (Tolerance(0.0, 0.25), -5.0, -4.0, True),
        (Tolerance(0.0, 0.25), 5.125, 4.0, False),
        (Tolerance(1.0, 0.25), 6.0, 4.0, True),
        (Tolerance(1.0, 0.25), 6.25, 4.0, False),
        (Tolerance(0.0), 3.0, 3.0, True),
        (Tolerance(1.0), math.inf, math.inf, True),
        (Tolerance(1.0), math.inf, 1.0, False),
        (Tolerance(1.0), math.nan, math.nan, True),
        (Tolerance(1.0), math.nan, 1.0, False),
        (Tolerance(1.0), 1.0, math.nan, False),
    ],
)
def test_a_number_is_admitted_within_the_tolerance(tolerance, found, right, admitted):
    assert tolerance.admits(found, right) is admitted


def test_a_share_of_the_tolerance_is_a_share_of_both_its_parts():
    tolerance = Tolerance(1.0, 0.25)
    assert tolerance.admits(5.0, 4.0, share=0.5)
    assert not tolerance.admits(5.25, 4.0, share=0.5)


TEN = Tolerance(1.0, 1.0)  # a fifth of it: 0.2 and 20 %


@pytest.mark.parametrize(
    ("oracle", "precise", "same"),
    [
        (10.0, 12.0, True),
        (10.0, 13.0, False),
        ([10.0, 1], [12.0, 1], True),
        ([10.0, 1], [13.0, 1], False),
        ([1.0], [1.0, 1.0], False),
        ([], [], True),
        ([math.nan, 1.0], [math.nan, 1.25], True),
        ([math.nan], [1.0], False),
        ([[10.0], {"a": 1.0}], [[12.0], {"a": 1.25}], True),
        ([[10.0], {"a": 1.0}], [[12.0], {"a": 9.0}], False),
        ({"a": [1.0], "b": "x"}, {"a": [1.0], "b": "x"}, True),
        ({"a": 1.0}, {"b": 1.0}, False),
        ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 9.0}, False),
        ("word", "word", True),
        ("word", "other", False),
        (["a", 1.0], ["a", 1.0], True),
        (None, None, True),
        (None, 0.0, False),
        ([1.0], 1.0, False),
        ({"a": 1.0}, [1.0], False),
        (True, 1, True),
    ],
)
def test_an_oracle_agrees_with_itself_in_float64_within_a_fifth_of_the_tolerance(oracle, precise, same):
    assert agree(oracle, precise, TEN) is same
