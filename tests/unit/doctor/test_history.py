"""When ranks began to differ, and whether they were made equal again, on moments that are made up."""

import pytest

from realranks.doctor.history import END, gap, lasting, made_equal_again, moment, ordered
from realranks.outcome.probe_notes import Digest


def moments(*each, end=False):
    """One moment per step: `=` where two ranks are equal; else by how much they differ."""
    found = [
        moment(
            step,
            [
                (
                    "weight",
                    {0: Digest(1, (1.0,)), 1: Digest(1, (1.0,)) if how == "=" else Digest(2, (1.0 + how,))},
                )
            ],
        )
        for step, how in enumerate(each)
    ]
    return (
        [*found[:-1], moment(END, [("weight", {0: Digest(1, (0.0,)), 1: Digest(2, (each[-1],))})])]
        if end
        else found
    )


@pytest.mark.parametrize(
    "each", [(), ("=",), ("=", "="), (1, "="), (1, "=", 2), ("=", 1, "=", 2, "=", 3), (1, "=", 2, 3)]
)
def test_ranks_that_are_equal_or_were_made_equal_again_do_not_last_in_a_difference(each):
    assert lasting(moments(*each)) is None


@pytest.mark.parametrize(("each", "since"), [((1,), 0), (("=", 1), 1), (("=", "=", 1, 3), 2), ((1, 3), 0)])
def test_a_difference_that_stays_is_told_with_the_step_at_which_it_began(each, since):
    found = lasting(moments(*each))
    assert (found.step, found.at_least) == (since, float(each[-1]))


def test_made_equal_again_needs_a_difference_first():
    assert not made_equal_again(moments("=", "="))
    assert not made_equal_again(moments("=", 1))
    assert made_equal_again(moments(1, "=", 1))


def test_the_end_of_the_run_comes_last():
    one, end = moments(1, 2.0, end=True)
    assert end.step == END
    assert ordered([end, one]) == [one, end]


def test_the_first_tensor_is_named_and_the_largest_gap_told():
    found = moment(
        3,
        [
            ("equal", {0: Digest(1, (1.0,)), 1: Digest(1, (1.0,)), 2: Digest(1, (1.0,))}),
            ("first", {0: Digest(1, (1.0,)), 1: Digest(1, (1.0,)), 2: Digest(2, (1.5,))}),
            ("second", {0: Digest(1, (1.0,)), 1: Digest(5, (4.0,)), 2: Digest(1, (1.0,))}),
            ("first", {0: Digest(1, (1.0,)), 1: Digest(1, (1.0,)), 2: Digest(2, (1.5,))}),
        ],
    ).difference
    assert (found.step, found.name, found.at_least, found.alike) == (3, "first", 3.0, ((2,), (0, 1)))
    assert found.names == ("first", "second")


def test_what_was_not_looked_at_differs_from_nothing():
    assert moment(0, [("weight", {0: Digest(None, ()), 1: Digest(2, ())})]).difference is None


def test_samples_that_are_equal_say_nothing_of_a_gap():
    assert gap([Digest(1, (1.0, 2.0)), Digest(2, (1.0, 2.0))]) is None
    assert gap([Digest(1, (None, 2.0)), Digest(2, (None, 5.0))]) == 3.0
    assert gap([Digest(1, ()), Digest(2, ())]) is None


def apart(step, **tensors):
    """Three ranks at a step: by tensor, what each of them has; without samples where values are words."""
    return moment(
        step,
        [
            (
                name,
                {
                    rank: Digest(value, (value,) if isinstance(value, float) else ())
                    for rank, value in enumerate(each)
                },
            )
            for name, each in tensors.items()
        ],
    )


def test_a_lasting_difference_begins_with_the_first_tensor_and_ends_with_the_ranks_and_tensors_of_the_last():
    found = lasting([apart(1, a=(1.0, 1.0, 3.0)), apart(2, a=(1.0, 1.5, 1.0), b=(4.0, 4.0, 4.5))])
    assert (found.step, found.name, found.names) == (1, "a", ("a", "b"))
    assert (found.at_least, found.alike) == (0.5, ((1,), (0, 2)))


def test_where_the_last_samples_do_not_tell_the_first_ones_do():
    found = lasting([apart(1, a=(1.0, 1.0, 3.0)), apart(2, b=("x", "x", "y"))])
    assert (found.at_least, found.name, found.names, found.alike) == (2.0, "a", ("b",), ((2,), (0, 1)))
