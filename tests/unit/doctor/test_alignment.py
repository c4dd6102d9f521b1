"""Sequences of collectives laid side by side: who has left one out, and who has issued one alone."""

import dataclasses

from realranks.doctor.alignment import left_out, out_of_step, threads_share, unequal_numbers
from realranks.outcome.facts import NO_FACTS, Facts
from realranks.outcome.outcome import Ending
from realranks.outcome.places import Frame, Spot
from tests.support.outcomes import collective, outcome
from tests.support.watched import under_a_condition


def issued(*sizes):
    """Collectives of these sizes, numbered from 1, each from a line of its own."""
    return tuple(
        dataclasses.replace(
            collective(seq=number, size=size),
            origin=Frame("train.py", 10 * size, "main", "dist.all_reduce(x)"),
            frames=(Spot("train.py", 10 * size, "main"),),
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
        "Rank 1 has not issued all_reduce() (4 float32) at train.py, line 40, which ranks 0 and 2 have"
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
    members = tuple(range(len(sequences))) if members is None else members
    return outcome(
        "ok",
        len(sequences),
        recorded=dict(enumerate(sequences)),
        facts={rank: Facts(groups={"0": members}) for rank in range(len(sequences))},
    )


def test_a_collective_left_open_is_worth_knowing():
    found = unequal_numbers(ended(issued(4), (), issued(4)))
    assert (found.kind, found.culprits, found.warning) == ("unequal_collectives", (), True)
    assert "at train.py, line 40, and rank 1 has not" in found.summary


def test_ranks_that_issued_equally_many_have_left_nothing_open():
    assert unequal_numbers(ended(issued(4, 2), issued(4, 2))) is None


def test_a_group_of_which_a_member_took_no_part_is_not_judged():
    assert unequal_numbers(ended(issued(4), (), members=[0, 1, 2])) is None


ORDER = (
    "issue each collective on all ranks of the group, in the same order. A rank that has nothing to add takes part "
    "with zeros."
)
GARBLED = " From there on the ranks meet in collectives that do not belong together."
LESSON = "lesson 13, Debugging a hang"


def test_one_left_out_is_told_with_what_stands_under_that_number_on_each_rank():
    found = out_of_step(hang(issued(4, 2), issued(2), issued(4, 2)), "0", 1, (0, 2), (1,))
    assert found.summary == (
        "Rank 1 has not issued all_reduce() (4 float32) at train.py, line 40, which ranks 0 and 2 have."
        + GARBLED
    )
    assert found.evidence == (
        "ranks 0,2  number 1 of the group is all_reduce() (4 float32) at train.py, line 40",
        "rank 1     number 1 of the group is all_reduce() (2 float32) at train.py, line 20  ◀ odd one out",
    )
    assert (found.advice, found.lesson, found.warning) == (ORDER, LESSON, False)


def test_further_ones_that_are_lacking_are_counted():
    found = out_of_step(hang(issued(4, 5, 2), issued(2), issued(4, 5, 2)), "0", 1, (1,), (0, 2))
    assert found.summary.startswith(
        "Rank 1 has not issued all_reduce() (4 float32) at train.py, line 40, and 1 more"
    )
    found = out_of_step(hang(issued(2), issued(4, 5, 6, 2), issued(2)), "0", 1, (1,), (0, 2))
    assert found.summary == (
        "Only rank 1 comes to all_reduce() (4 float32) at train.py, line 40, and 2 more collectives."
        + GARBLED
    )


def test_one_against_one_is_decided_by_a_condition_on_the_rank(monkeypatch):
    under_a_condition(monkeypatch, 40)
    found = out_of_step(hang(issued(4, 2), issued(2)), "0", 1, (1,), (0,))
    assert (found.kind, found.culprits) == ("rank_only_collective", (0,))
    assert found.summary == (
        "Only rank 0 comes to all_reduce() (4 float32) at train.py, line 40 (under `rank == 0`)." + GARBLED
    )


def test_the_majority_is_not_blamed_for_a_condition(monkeypatch):
    under_a_condition(monkeypatch, 40)
    found = out_of_step(hang(issued(4, 2), issued(2), issued(4, 2)), "0", 1, (1,), (0, 2))
    assert (found.kind, found.culprits) == ("skipped_collective", (1,))
    assert "line 40 (under `rank == 0`), which ranks 0 and 2 have" in found.summary


def test_a_line_to_which_all_have_come_is_told_with_how_often():
    found = out_of_step(hang(issued(4, 2, 4, 3), issued(4, 2, 3), issued(4, 2, 3)), "0", 1, (1, 2), (0,))
    assert (found.kind, found.culprits) == ("skipped_collective", (0,))
    assert "line 40, which rank 0 has (1 time there, and rank 0 2 times)" in found.summary


def test_only_the_collectives_from_the_given_number_on_and_of_the_given_group_are_laid_side_by_side():
    other = tuple(dataclasses.replace(record, group="1") for record in issued(7))
    seen = hang((*other, *issued(9, 4, 2)), issued(8, 2), issued(9, 4, 2))
    found = out_of_step(seen, "0", 2, (1,), (0, 2))
    assert "(4 float32) at train.py, line 40" in found.summary
    assert out_of_step(seen, "0", 1, (1,), (0, 2)) is None, "an exchange before it"
    assert out_of_step(seen, "1", 1, (1,), (0, 2)) is None


def test_ranks_that_have_issued_the_same_are_not_out_of_step():
    assert out_of_step(hang(issued(4, 2), issued(4, 2)), "0", 1, (1,), (0,)) is None


def test_what_is_left_open_is_told_in_full():
    found = unequal_numbers(ended(issued(4, 2), issued(4), issued(4, 2), issued(4, 2)))
    assert found.summary == (
        "Every rank has ended the cell, but ranks 0, 2 and 3 have issued all_reduce() (2 float32) at train.py, line 20"
        ", and rank 1 has not. It is still open: the next collective of rank 1 will meet it."
    )
    assert found.evidence == (
        "ranks 0,2,3  2 collectives issued",
        "rank 1       1 collective issued",
    )
    assert found.advice.startswith(
        "issue each collective on all ranks of the group, and wait for the Work that "
    )
    assert found.advice.endswith("starts again with groups in which nothing is open.")
    assert (found.lesson, found.warning) == (LESSON, True)


def test_of_several_that_may_be_open_the_one_that_has_no_counterpart_is_named():
    done = tuple(dataclasses.replace(record, done=True) for record in issued(3, 4, 2))
    found = unequal_numbers(ended(done, done[:2], done))
    assert "all_reduce() (2 float32) at train.py, line 20" in found.summary
    left = tuple(dataclasses.replace(record, seq=record.seq - 1) for record in done[1:])
    found = unequal_numbers(ended((*done[:2], issued(3, 4, 2)[2]), left, done))
    assert "all_reduce() (3 float32) at train.py, line 30" in found.summary


def test_groups_whose_members_do_not_agree_are_not_judged_and_the_others_are():
    one = ended(issued(4), (), issued(4))
    facts = {rank: Facts(groups={"0": (0, 1, 2), "00": (0, 1) if rank else (1, 0)}) for rank in range(3)}
    assert unequal_numbers(dataclasses.replace(one, facts=facts)).kind == "unequal_collectives"
    facts = {**one.facts, 1: Facts(groups={"0": (1, 0, 2)})}
    assert unequal_numbers(dataclasses.replace(one, facts=facts)) is None
    facts = {**one.facts, 2: NO_FACTS}
    assert unequal_numbers(dataclasses.replace(one, facts=facts)) is None


def test_a_rank_that_left_one_out_is_told_from_either_side_alike():
    seen = hang(issued(4, 2), issued(2), issued(4, 2))
    one, other = out_of_step(seen, "0", 1, (1,), (0, 2)), out_of_step(seen, "0", 1, (0, 2), (1,))
    assert one == other


def test_several_ranks_have_and_come_and_a_line_may_be_unknown():
    nowhere = (collective(seq=1, size=4), collective(seq=2, size=2))
    one = nowhere[1:]
    few = out_of_step(hang(one, one, nowhere, nowhere, nowhere), "0", 1, (0, 1), (2, 3, 4))
    assert few.summary.startswith(
        "Ranks 0 and 1 have not issued all_reduce() (4 float32) at an unknown line, which ranks 2-4 have."
    )
    assert few.evidence[0].endswith(
        "number 2 of the group is all_reduce() (2 float32) at an unknown line  ◀ odd ones out"
    )
    many = out_of_step(hang(nowhere, nowhere, one, one, one), "0", 1, (0, 1), (2, 3, 4))
    assert many.summary.startswith("Only ranks 0 and 1 come to all_reduce() (4 float32) at an unknown line.")
    alone = out_of_step(hang(nowhere, one), "0", 1, (0,), (1,))
    assert "which rank 0 has. From" in alone.summary


def test_two_threads_on_one_group_are_told_from_the_number_on_at_which_they_come_apart():
    thread = [dataclasses.replace(record, thread=7) for record in issued(1, 2, 3)]
    main = issued(1, 2, 3)
    same = hang((main[0], thread[1]), (main[0], thread[1]))
    assert threads_share(same, "0") is None
    found = threads_share(hang((main[0], thread[1], main[2]), (main[0], main[1], thread[2])), "0")
    assert (found.kind, found.culprits) == ("threads_share_a_group", ())
    assert found.evidence[0].startswith("rank 0  number 2 of the group is all_reduce() (2 float32)")
    assert "in a thread" in found.evidence[0]
    assert "in the main thread" in found.evidence[1]
