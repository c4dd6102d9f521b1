"""Which ranks are the odd ones out: one rule, with its ties."""

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.watch.majority import odd_ones
from tests.support.outcomes import blocked, meeting, stuck
from tests.support.watched import gradients, models, notes, record, watched, weights


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


def test_of_three_against_one_nobody_is_blamed_either_and_it_is_told_who_differs_from_whom():
    found = diagnose(met(4, 4, 8, 4))
    assert (found.kind, found.culprits) == ("different_sizes", ())
    assert "rank 2 brings all_reduce() (8 float32), ranks 0, 1 and 3 bring all_reduce() (4" in found.summary


@pytest.mark.parametrize(
    ("values", "who"),
    [
        ((10, 10, 11, 10), ": rank 2 from ranks 0, 1 and 3."),
        ((10, 11, 10, 11), ": ranks 0 and 2 from ranks 1 and 3."),
        ((10, 12, 11, 10), ": rank 1, rank 2, ranks 0 and 3, each from the others."),
        ((10, 11, 12, 13), "since step 1."),
    ],
)
def test_weights_that_differ_blame_nobody_and_it_is_told_who_differs_from_whom(values, who):
    found = diagnose(watched(*(notes(weights=weights(1, value)) for value in values)))
    assert found.culprits == ()
    assert who in found.summary


def test_weights_that_one_rank_has_changed_outside_of_its_optimizer_are_its_own():
    each = [
        notes(
            weights=weights(1, 10 + (rank == 0)),
            gradients=gradients(5, 5),
            models=[{**models(0)[0], "touched": [1] if rank == 0 else []}],
        )
        for rank in range(2)
    ]
    found = diagnose(watched(*each))
    assert (found.kind, found.culprits) == ("weights_differ", (0,))
    assert "rank 0 changed the weights otherwise" in found.summary


def test_collectives_that_do_not_fit_are_told_before_ranks_that_are_missing():
    mine, theirs = record("", 5, op="broadcast"), record("", 6)
    one = blocked(0, "broadcast", [2], mine, mismatch={1: theirs})
    other = blocked(1, "all_reduce", [2], theirs, mismatch={0: mine})
    assert diagnose(stuck(one, other, world_size=3)).kind == "different_collectives"
