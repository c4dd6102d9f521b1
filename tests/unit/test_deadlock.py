"""The proof of a deadlock, on looks that are made up."""

import dataclasses

from course_lib.ranks.cell import Frame
from course_lib.ranks.deadlock import Look, judge
from tests.unit.outcomes import collective

EVERYONE = (0, 1, 2, 3)
LINE = Frame("<rank cell In [1]>", 2, "<module>", "dist.all_reduce(x)")


def look(rank, records=(), waiting_in="all_reduce", **fields):
    issued = {"0": max((r.seq for r in records), default=0)}
    return Look(rank, (LINE,), waiting_in, 1.0, 0, issued, {"0": EVERYONE}, tuple(records), **fields)


def gone(rank, records=()):
    """A rank that has left the cell."""
    return dataclasses.replace(look(rank, records, waiting_in=None), stack=())


def verdict(looks, running, before=None, stopped=()):
    now = {one.rank: one for one in looks}
    return judge(
        {one.rank: one for one in before} if before else now, now, frozenset(running), frozenset(stopped)
    )


SKIPPED = [look(0, [collective()]), look(1, [collective()]), gone(2), look(3, [collective()])]


def test_a_rank_that_left_without_joining_is_a_proof():
    proof = verdict(SKIPPED, {0, 1, 3})
    assert set(proof) == {0, 1, 3}
    assert proof[0].missing == (2,)
    assert proof[0].where == "In [1], line 2"
    assert proof[0].call == "all_reduce"


def test_one_look_is_no_proof():
    assert judge({}, {one.rank: one for one in SKIPPED}, frozenset({0, 1, 3})) is None


def test_a_rank_that_computes_could_still_join():
    looks = [*SKIPPED[:2], look(2, waiting_in=None), SKIPPED[3]]
    assert verdict(looks, {0, 1, 2, 3}) is None


def changed(looks, rank, **fields):
    return [dataclasses.replace(one, **fields) if one.rank == rank else one for one in looks]


def test_whatever_moves_between_two_looks_is_no_proof():
    for fields in (
        {"cpu_seconds": 1.1},
        {"records": ()},
        {"sequence": {"0": 7}},
        {"stack": (dataclasses.replace(LINE, line=3),)},
        {"asleep": False},
    ):
        assert verdict(SKIPPED, {0, 1, 3}, before=changed(SKIPPED, 1, **fields)) is None, fields


def test_a_rank_that_only_waits_for_a_free_core_is_no_proof():
    looks = changed(SKIPPED, 0, asleep=False)
    assert verdict(looks, {0, 1, 3}) is None


def test_a_wait_that_ends_by_itself_is_no_proof():
    assert verdict(changed(SKIPPED, 3, ends_by_itself=True), {0, 1, 3}) is None


def test_another_thread_anywhere_could_bring_the_collective():
    assert verdict(changed(SKIPPED, 2, other_threads=1), {0, 1, 3}) is None


def test_a_collective_that_all_have_joined_is_under_way():
    assert verdict([look(rank, [collective()]) for rank in EVERYONE], set(EVERYONE)) is None
    looks = [
        *(look(rank, [collective()]) for rank in (0, 1)),
        *(gone(rank, [collective()]) for rank in (2, 3)),
    ]
    assert verdict(looks, {0, 1}) is None


def test_different_collectives_with_the_same_number_never_meet():
    looks = [look(rank, [collective("broadcast" if rank == 3 else "all_reduce")]) for rank in EVERYONE]
    proof = verdict(looks, set(EVERYONE))
    assert {rank: set(waiting.mismatch) for rank, waiting in proof.items()} == {
        0: {3},
        1: {3},
        2: {3},
        3: {0, 1, 2},
    }


def test_the_same_collective_with_other_sizes_never_meets():
    looks = [look(rank, [collective(size=2 if rank == 3 else 1)]) for rank in EVERYONE]
    assert verdict(looks, set(EVERYONE))[0].mismatch[3].sizes == ((2,),)


def test_a_receive_is_not_recorded_and_still_proved():
    proof = verdict([look(0, waiting_in="recv"), gone(1), gone(2), gone(3)], {0})
    assert proof[0].collective is None
    assert proof[0].missing == ()


def test_a_stopped_rank_explains_why_the_others_wait():
    looks = [look(rank, [collective()]) for rank in (0, 1, 3)]
    proof = verdict(looks, set(EVERYONE), stopped={2})
    assert proof[2].state == "stopped"
    assert proof[0].missing == (2,)


def test_a_rank_that_does_not_answer_is_no_proof():
    looks = [one for one in SKIPPED if one.rank != 1]
    assert verdict(looks, {0, 1, 3}) is None


def test_nobody_running_is_nothing_to_prove():
    assert verdict([gone(rank) for rank in EVERYONE], set()) is None
