"""Sequences of collectives laid side by side: who has left one out, and who has issued one alone."""

import dataclasses

from course_lib.doctor.alignment import left_out, out_of_step, unequal_numbers
from course_lib.outcome.outcome import Ending
from course_lib.outcome.places import Frame
from tests.unit.outcomes import collective, outcome


def issued(*sizes):
    """Collectives of these sizes, numbered from 1, each from a line of its own."""
    return tuple(
        dataclasses.replace(
            collective(seq=number, size=size),
            origin=Frame("train.py", 10 * size, "main", "dist.all_reduce(x)"),
        )
        for number, size in enumerate(sizes, start=1)
    )


def sizes(records):
    return [record.sizes[0][0] for record in records]


def test_what_one_has_and_the_other_lacks():
    assert sizes(left_out(issued(2), issued(4, 2))) == [4]
    assert sizes(left_out(issued(1, 3, 5), issued(1, 2, 3, 4, 5))) == [2, 4]


def test_what_comes_after_the_last_that_both_have_says_nothing():
    assert left_out(issued(1, 2), issued(1, 2, 3)) == ()
    assert sizes(left_out(issued(2, 9), issued(4, 2, 8))) == [4]


def test_an_exchange_is_no_omission():
    assert left_out(issued(1, 2), issued(2, 1)) == ()
    assert left_out(issued(1), issued(2)) == ()


def hang(*sequences):
    return outcome("hang", len(sequences), recorded=dict(enumerate(sequences)), endings={0: Ending.FREED})


def test_the_minority_that_left_one_out_is_named_with_the_line_of_the_others():
    found = out_of_step(hang(issued(4, 2), issued(2), issued(4, 2)), "0", 1, (1,), (0, 2))
    assert (found.kind, found.culprits) == ("skipped_collective", (1,))
    assert (
        "Rank 1 has left out all_reduce() (4 float32) at train.py, line 40, which ranks 0 and 2 have"
        in found.summary
    )


def test_the_minority_that_issued_one_alone_is_named():
    found = out_of_step(hang(issued(2), issued(4, 2), issued(2)), "0", 1, (1,), (0, 2))
    assert (found.kind, found.culprits) == ("extra_collective", (1,))
    assert found.summary.startswith("Only rank 1 comes to all_reduce() (4 float32) at train.py, line 40")


def test_one_against_one_names_what_is_missing_and_blames_nobody():
    found = out_of_step(hang(issued(4, 2), issued(2)), "0", 1, (1,), (0,))
    assert (found.kind, found.culprits) == ("skipped_collective", ())


def ended(*sequences, members=None):
    members = list(range(len(sequences))) if members is None else members
    return outcome(
        "ok",
        len(sequences),
        recorded=dict(enumerate(sequences)),
        facts={rank: {"groups": {"0": members}} for rank in range(len(sequences))},
    )


def test_a_collective_left_open_is_worth_knowing():
    found = unequal_numbers(ended(issued(4), (), issued(4)))
    assert (found.kind, found.culprits, found.warning) == ("unequal_collectives", (1,), True)
    assert "at train.py, line 40, and rank 1 has not" in found.summary


def test_ranks_that_issued_equally_many_have_left_nothing_open():
    assert unequal_numbers(ended(issued(4, 2), issued(4, 2))) is None


def test_a_group_of_which_a_member_took_no_part_is_not_judged():
    assert unequal_numbers(ended(issued(4), (), members=[0, 1, 2])) is None
