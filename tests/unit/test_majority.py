"""Which ranks are the odd ones out: one rule, with its ties."""

import pytest

from course_lib.doctor.diagnose import diagnose
from course_lib.watch.majority import odd_ones
from tests.made_up.outcomes import blocked, meeting, stuck
from tests.made_up.watched import notes, record, watched, weights


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ("aab", (2,)),
        ("baa", (0,)),
        ("aaab", (3,)),
        ("aaabc", (3, 4)),
        ("aaa", ()),
        ("a", ()),
        ("", ()),
    ],
)
def test_who_has_not_what_more_than_half_have_is_odd(values, odd):
    assert odd_ones(dict(enumerate(values))) == odd


@pytest.mark.parametrize("values", ["ab", "aabb", "aabc", "abc", "aaabbb", "aaabbc"])
def test_without_a_majority_nobody_is_odd(values):
    assert odd_ones(dict(enumerate(values))) == ()


def met(*sizes):
    """Every rank waits in the same all_reduce with a tensor of its own size."""
    return meeting(*(record("", 5, size=size) for size in sizes))


def test_of_two_against_two_nobody_is_blamed():
    found = diagnose(met(4, 4, 8, 8))
    assert (found.kind, found.culprits) == ("different_sizes", ())


def test_of_three_against_one_the_one_is_blamed():
    found = diagnose(met(4, 4, 8, 4))
    assert (found.kind, found.culprits) == ("different_sizes", (2,))


def test_weights_that_differ_two_against_two_blame_nobody():
    each = [notes(weights=weights(1, 10 + (rank > 1))) for rank in range(4)]
    assert diagnose(watched(*each)).culprits == ()


def test_collectives_that_do_not_fit_are_told_before_ranks_that_are_missing():
    mine, theirs = record("", 5, op="broadcast"), record("", 6)
    one = blocked(0, "broadcast", [2], mine, mismatch={1: theirs})
    other = blocked(1, "all_reduce", [2], theirs, mismatch={0: mine})
    assert diagnose(stuck(one, other, world_size=3)).kind == "different_collectives"
