"""The proof of a deadlock, on statuses that are made up."""

import dataclasses
import sysconfig

import pytest

from realranks.outcome.partners import Partners
from realranks.outcome.places import Frame
from realranks.ranks.kernel.deadlock import first_misfit, fit, issued_between, judge
from realranks.ranks.status import RankStatus
from tests.support.outcomes import collective

EVERYONE = (0, 1, 2, 3)
LINE = Frame("<rank cell In [1]>", 2, "<module>", "dist.all_reduce(x)")
TORCHS = Frame(f"{sysconfig.get_path('purelib')}/torch/distributed.py", 9, "all_reduce", "work.wait()")


def status(rank, records=(), waiting_in="all_reduce", **fields):
    issued = {"0": max((r.seq for r in records), default=0)}
    return RankStatus(rank, (LINE,), waiting_in, 1.0, issued, {"0": EVERYONE}, tuple(records), **fields)


def gone(rank, records=()):
    """A rank that has left the cell."""
    return dataclasses.replace(status(rank, records, waiting_in=None), stack=())


def found(statuses, running, before=None, stopped=(), failed=()):
    now = {one.rank: one for one in statuses}
    earlier = {one.rank: one for one in before} if before else now
    return judge(earlier, now, frozenset(running), frozenset(stopped), frozenset(failed))


def verdict(statuses, running, before=None, stopped=(), failed=()):
    """Who waits where, if that is proved for ever; else None."""
    still = found(statuses, running, before, stopped, failed)
    return still.waiting if still is not None and still.proved else None


SKIPPED = [status(0, [collective()]), status(1, [collective()]), gone(2), status(3, [collective()])]


def test_a_rank_that_left_without_joining_is_a_proof():
    proof = verdict(SKIPPED, {0, 1, 3})
    assert set(proof) == {0, 1, 3}
    assert proof[0].missing == (2,)
    assert proof[0].where == "In [1], line 2"
    assert proof[0].call == "all_reduce"


def test_one_look_is_no_proof():
    assert judge({}, {one.rank: one for one in SKIPPED}, frozenset({0, 1, 3})) is None


def test_a_rank_that_computes_could_still_join():
    statuses = [*SKIPPED[:2], status(2, waiting_in=None, asleep=False), SKIPPED[3]]
    assert verdict(statuses, {0, 1, 2, 3}) is None


def changed(statuses, rank, **fields):
    return [dataclasses.replace(one, **fields) if one.rank == rank else one for one in statuses]


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
    statuses = changed(SKIPPED, 0, asleep=False)
    assert verdict(statuses, {0, 1, 3}) is None


def test_a_wait_that_ends_by_itself_is_not_even_probable():
    assert found(changed(SKIPPED, 3, ends_by_itself=True), {0, 1, 3}).may_resume


def test_another_thread_anywhere_makes_it_probable():
    still = found(changed(SKIPPED, 2, threads=(("prefetch", "lock"),)), {0, 1, 3})
    assert not still.proved
    assert not still.may_resume
    assert still.doubts == ("thread 'prefetch' of rank 2 lives and might still act",)


@pytest.mark.parametrize("kind", ["sleep", "other"])
def test_a_thread_that_will_wake_makes_it_not_even_probable(kind):
    assert found(changed(SKIPPED, 2, threads=(("timer", kind),)), {0, 1, 3}).may_resume


@pytest.mark.parametrize(("kind", "may_resume"), [("lock", False), ("sleep", True), ("child", True)])
def test_a_rank_asleep_outside_communication_is_never_a_proof(kind, may_resume):
    statuses = [*SKIPPED[:2], status(2, waiting_in=None, pause=("x.acquire()", kind)), SKIPPED[3]]
    still = found(statuses, set(EVERYONE))
    assert still.doubts == ("rank 2 sleeps in x.acquire(), which is no communication",)
    assert still.may_resume is may_resume
    assert still.waiting[2].state == "asleep"


def test_a_child_process_might_set_the_key_that_a_rank_waits_for():
    store = [status(0, waiting_in="get"), gone(1)]
    assert found(store, {0}).proved
    child = {77: ("python", 0.5)}
    assert found([store[0], dataclasses.replace(store[1], children=child)], {0}).may_resume
    assert found(
        [*SKIPPED[:2], dataclasses.replace(SKIPPED[2], children=child), SKIPPED[3]], {0, 1, 3}
    ).proved


def test_bytes_on_their_way_are_no_standing_still():
    for fields in ({"in_flight": 10}, {"moved": 10}, {"children": {5: ("sh", 0.2)}}):
        assert found(SKIPPED, {0, 1, 3}, before=changed(SKIPPED, 1, **fields)) is None, fields


@pytest.mark.parametrize(("in_flight", "wants"), [(0, True), (48, False)])
def test_gloos_thread_must_have_had_its_turns(in_flight, wants):
    """Bytes that it leaves where they are, though it could have taken them, are none that anybody waits for."""
    before = changed(SKIPPED, 1, loops={"7": (3, wants)}, in_flight=in_flight)
    assert found(changed(before, 1, loops={"7": (4, wants)}), {0, 1, 3}, before) is None
    assert found(changed(before, 1, loops={"7": (5, wants)}), {0, 1, 3}, before).proved


def test_gloos_thread_that_sleeps_needs_no_turns_when_nothing_lies_on_its_connections():
    statuses = changed(SKIPPED, 1, loops={"7": (3, False)})
    assert found(statuses, {0, 1, 3}, statuses).proved


def test_a_collective_that_all_have_joined_and_that_moves_nothing_never_ends():
    statuses = [status(rank, [collective()]) for rank in EVERYONE]
    assert found(statuses, set(EVERYONE)).proved
    blind = [dataclasses.replace(one, seen_through=False) for one in statuses]
    assert "does not tell" in found(blind, set(EVERYONE)).doubts[0]


def test_ranks_that_have_failed_in_the_collective_move_it_no_more():
    statuses = [status(0, [collective()]), *(gone(rank, [collective()]) for rank in (1, 2, 3))]
    assert verdict(statuses, {0}, failed={1, 2, 3})[0].missing == (1, 2, 3)


def partners(call, **fields):
    return Partners(call, **{"group": "0", "members": EVERYONE, **fields})


def test_ranks_that_take_different_ranks_for_the_root_never_meet():
    statuses = [
        status(rank, [collective("broadcast")], "broadcast", partners=partners("broadcast", root=rank == 3))
        for rank in EVERYONE
    ]
    statuses = [
        dataclasses.replace(one, partners=partners("broadcast", root=3 if one.rank == 3 else 0))
        for one in statuses
    ]
    proof = verdict(statuses, set(EVERYONE))
    assert set(proof[0].mismatch) == {3}
    assert set(proof[3].mismatch) == {0, 1, 2}


def test_a_send_and_the_receive_it_meets_lack_nobody():
    pair = [
        status(0, waiting_in="send", partners=partners("send", to=1)),
        status(1, waiting_in="recv", partners=partners("recv", source=0)),
    ]
    assert [w.missing for w in found(pair, {0, 1}).waiting.values()] == [(), ()]
    crossed = [pair[0], dataclasses.replace(pair[1], partners=partners("recv", source=2)), gone(2)]
    assert [w.missing for w in found(crossed, {0, 1}).waiting.values()] == [(1,), (2,)]


@pytest.mark.parametrize("call", ["recv", "irecv"])
def test_a_receive_from_anybody_lacks_nobody_and_meets_every_send_to_it(call):
    statuses = [
        status(0, waiting_in="send", partners=partners("send", to=1)),
        status(1, waiting_in=call, partners=partners(call)),
        gone(2),
    ]
    assert [w.missing for w in found(statuses, {0, 1}).waiting.values()] == [(), ()]


@pytest.mark.parametrize(
    "other", [partners("recv", source=2), partners("send", to=0), partners("send"), partners("barrier")]
)
def test_what_is_not_the_other_half_of_a_send_does_not_meet_it(other):
    statuses = [
        status(0, waiting_in="send", partners=partners("send", to=1)),
        status(1, waiting_in=other.call, partners=other),
    ]
    assert found(statuses, {0, 1}).waiting[0].missing == (1,)


def test_two_receives_that_wait_for_each_other_lack_each_other():
    statuses = [status(r, waiting_in="recv", partners=partners("recv", source=1 - r)) for r in (0, 1)]
    assert [w.missing for w in found(statuses, {0, 1}).waiting.values()] == [(1,), (0,)]


def test_a_barrier_that_is_not_recorded_lacks_those_who_are_not_in_it():
    barrier = partners("monitored_barrier")
    statuses = [
        status(0, waiting_in="monitored_barrier", partners=barrier),
        status(1, waiting_in="monitored_barrier", partners=barrier),
        status(2, waiting_in="monitored_barrier", partners=dataclasses.replace(barrier, group="1")),
        status(3, waiting_in="all_reduce", partners=partners("all_reduce")),
    ]
    still = found(statuses, set(EVERYONE))
    assert still.waiting[0].missing == (2, 3)
    assert still.waiting[1].missing == (2, 3)
    assert still.waiting[2].missing == (0, 1, 3)
    assert found([*statuses[:2], gone(2), status(3)], {0, 1, 3}).waiting[0].missing == (2, 3)


def test_a_waiting_rank_is_described_with_all_that_is_known_of_it():
    needs = partners("all_reduce", root=None)
    one = dataclasses.replace(
        status(1, [collective()], pause=("p.join()", "child"), children={7: ("sh", 0.1)}, partners=needs),
        stack=(LINE, TORCHS),
    )
    waiting = found([status(0, [collective()]), one, gone(2), gone(3)], {0, 1}).waiting[1]
    assert (waiting.rank, waiting.call, waiting.state) == (1, "all_reduce", "blocked")
    assert (waiting.where, waiting.source) == ("In [1], line 2", "dist.all_reduce(x)")
    assert (waiting.stack, waiting.pause) == ((LINE, TORCHS), ("p.join()", "child"))
    assert (waiting.partners, waiting.children) == (needs, ("sh",))


def test_a_rank_that_runs_none_of_the_learners_code_has_no_line():
    one = dataclasses.replace(status(0, [collective()]), stack=())
    waiting = found([one, gone(1)], {0}).waiting[0]
    assert (waiting.where, waiting.source) == ("", "")


def test_the_kernel_says_whose_look_it_is():
    """A rank could say anything; the wire on which it came tells."""
    assert status(7, [collective()]).of_rank(2) == status(2, [collective()])


def test_the_collectives_of_a_span_of_time_include_its_ends():
    records = [dataclasses.replace(collective(seq=seq), time_ns=seq * 10) for seq in (1, 2, 3, 4)]
    assert issued_between({1: status(1, records), 0: status(0)}, 20, 30) == {0: (), 1: tuple(records[1:3])}


def test_a_brief_look_says_nothing_of_collectives():
    brief = [dataclasses.replace(one, records=(), brief=True) for one in SKIPPED]
    assert found(SKIPPED, {0, 1, 3}, before=brief) is not None
    assert found(brief, {0, 1, 3}, before=SKIPPED) is not None
    assert found(SKIPPED, {0, 1, 3}, before=[dataclasses.replace(one, brief=False) for one in brief]) is None


def test_a_thread_of_gloos_that_is_new_has_had_no_turn_yet():
    statuses = changed(SKIPPED, 1, loops={"8": (30, True)})
    assert found(statuses, {0, 1, 3}, before=changed(SKIPPED, 1, loops={"7": (1, False)})) is None


def test_everyone_absent_is_named_not_only_the_first():
    statuses = [status(0, [collective()]), gone(1), gone(2), status(3, [collective()])]
    assert verdict(statuses, {0, 3})[0].missing == (1, 2)


def test_a_collective_that_a_rank_has_forgotten_is_not_held_against_it():
    """Its list goes back so far only; those behind it are judged all the same."""
    forgotten = status(1, [collective(seq=2, done=True)])
    statuses = [status(0, [collective(seq=1)]), forgotten, gone(2), status(3, [collective(seq=1)])]
    assert verdict(statuses, {0, 1, 3})[0].missing == (2,)


def test_numbers_of_another_group_are_not_compared():
    mine, other = collective(seq=2), collective("broadcast", seq=2, group="1")
    statuses = [status(0, [mine]), status(1, [other, mine]), gone(2), status(3, [mine])]
    assert not verdict(statuses, {0, 1, 3})[0].mismatch


def test_the_root_of_another_groups_call_or_of_one_that_is_over_says_nothing():
    def rooted(rank, root, **fields):
        needs = partners("broadcast", root=root, group=fields.get("group", "0"))
        return status(
            rank, [collective("broadcast", done=fields.get("done", False))], "broadcast", partners=needs
        )

    for fields in ({"group": "1"}, {"done": True}):
        statuses = [rooted(0, 0), *(rooted(rank, 3, **fields) for rank in (1, 2, 3))]
        assert not found(statuses, set(EVERYONE)).waiting[0].mismatch, fields
    statuses = [rooted(0, 0), *(rooted(rank, 3) for rank in (1, 2, 3))]
    assert found(statuses, set(EVERYONE)).waiting[0].mismatch[1].op == "broadcast"


def test_a_stopped_rank_has_no_line_and_a_rank_asleep_is_no_blocked_one():
    statuses = [status(0, [collective()]), status(1, waiting_in=None, pause=("sleep(9)", "sleep"))]
    waiting = found(statuses, {0, 1, 2}, stopped={2}).waiting
    assert [waiting[rank].state for rank in range(3)] == ["blocked", "asleep", "stopped"]
    assert (waiting[2].rank, waiting[2].where, waiting[2].source, waiting[2].call) == (2, "", "", None)


def test_only_where_all_have_joined_does_it_matter_what_the_system_does_not_tell():
    def blind(statuses):
        return [dataclasses.replace(one, seen_through=False) for one in statuses]

    joined = [status(rank, [collective()]) for rank in EVERYONE]
    assert found(blind(SKIPPED), {0, 1, 3}).proved
    mixed = [status(rank, [collective("broadcast" if rank else "all_reduce")]) for rank in EVERYONE]
    assert found(blind(mixed), set(EVERYONE)).proved
    assert found(blind(joined[:3]), set(EVERYONE), stopped={3}).proved
    assert found(blind([status(0, waiting_in="recv", partners=partners("recv"))]), {0}).proved
    doubts = found(changed(blind(joined), 1, threads=(("loader", "lock"),)), set(EVERYONE)).doubts
    assert len(doubts) == 5
    assert "thread 'loader' of rank 1" in doubts[0]


def test_a_rank_that_sleeps_nobody_knows_where_is_told_as_that():
    still = found([*SKIPPED[:2], status(2, waiting_in=None), SKIPPED[3]], set(EVERYONE))
    assert still.doubts == ("rank 2 sleeps",)
    assert still.may_resume


def test_one_that_will_go_on_is_enough_whoever_is_asked_after_it():
    asleep = [
        status(1, waiting_in=None, pause=("sleep(9)", "sleep")),
        status(2, waiting_in=None, pause=("l", "lock")),
    ]
    assert found([SKIPPED[0], *asleep, SKIPPED[3]], set(EVERYONE)).may_resume
    assert found(changed(SKIPPED, 2, threads=(("a", "sleep"), ("b", "lock"))), {0, 1, 3}).may_resume
    ending = changed([SKIPPED[0], *asleep[1:], SKIPPED[3]], 0, ends_by_itself=True)
    assert found(ending, {0, 2, 3}).may_resume


def test_a_thread_in_a_communication_call_makes_it_probable_not_passing():
    still = found(changed(SKIPPED, 2, threads=(("sender", "communication"),)), {0, 1, 3})
    assert (still.proved, still.may_resume) == (False, False)


def test_the_children_that_might_set_a_key_are_named():
    children = {8: ("sh", 0.5), 7: ("python", 0.5), 9: ("sh", 0.1)}
    still = found([status(0, waiting_in="get"), dataclasses.replace(gone(1), children=children)], {0})
    assert still.doubts == ("a process that rank 1 has started (python, sh) lives and might set the key",)


@pytest.mark.parametrize(
    "fields",
    [
        {"waiting_in": "all_reduce"},
        {"partners": partners("broadcast")},
        {"stack": (LINE, TORCHS)},
        {"records": (collective(),)},
    ],
)
def test_a_child_sets_no_key_for_a_wait_that_is_not_the_learners_own_for_a_key(fields):
    one = dataclasses.replace(status(0, waiting_in="get"), **fields)
    assert found([one, dataclasses.replace(gone(1), children={7: ("sh", 0.5)})], {0}).doubts == ()


def test_different_collectives_with_the_same_number_never_meet():
    statuses = [status(rank, [collective("broadcast" if rank == 3 else "all_reduce")]) for rank in EVERYONE]
    proof = verdict(statuses, set(EVERYONE))
    assert {rank: set(waiting.mismatch) for rank, waiting in proof.items()} == {
        0: {3},
        1: {3},
        2: {3},
        3: {0, 1, 2},
    }


def test_the_same_collective_with_other_sizes_never_meets():
    statuses = [status(rank, [collective(size=2 if rank == 3 else 1)]) for rank in EVERYONE]
    assert verdict(statuses, set(EVERYONE))[0].mismatch[3].sizes == ((2,),)


@pytest.mark.parametrize("op", ["all_reduce", "reduce", "broadcast"])
def test_where_every_rank_gives_the_same_shape_other_sizes_and_types_do_not_fit(op):
    assert fit(collective(op, size=4), collective(op, seq=9, size=4))
    assert not fit(collective(op, size=4), collective(op, size=8))
    assert not fit(collective(op), dataclasses.replace(collective(op), dtypes=("Double",)))


def test_gloo_gathers_equal_numbers_of_one_type_and_nccl_need_not():
    one = collective("all_gather", size=4)
    assert not fit(one, collective("all_gather", size=8))
    assert not fit(one, dataclasses.replace(one, dtypes=("Double",)))
    assert fit(one, dataclasses.replace(one, sizes=((2, 2),)))
    assert fit(
        dataclasses.replace(one, group="0/nccl"), dataclasses.replace(one, group="0/nccl", sizes=((8,),))
    )


@pytest.mark.parametrize("op", ["gather", "scatter", "all_to_all", "barrier"])
def test_where_ranks_may_give_different_shapes_only_another_operation_does_not_fit(op):
    assert fit(collective(op, size=4), collective(op, size=8))
    assert not fit(collective(op), collective("all_reduce"))


def test_of_several_collectives_under_way_the_first_that_cannot_end_is_named():
    open_ones = [collective(seq=seq) for seq in (1, 2, 3)]
    statuses = [status(0, open_ones), status(1, open_ones), gone(2, open_ones[:1]), status(3, open_ones)]
    proof = verdict(statuses, {0, 1, 3})
    assert {rank: waiting.collective.seq for rank, waiting in proof.items()} == {0: 2, 1: 2, 3: 2}
    assert proof[0].missing == (2,)


def test_of_several_that_all_have_joined_the_first_is_named():
    open_ones = [collective(seq=1, done=True), collective(seq=2), collective(seq=3)]
    proof = verdict([status(rank, open_ones) for rank in EVERYONE], set(EVERYONE))
    assert proof[0].collective.seq == 2


def test_a_receive_is_not_recorded_and_still_proved():
    proof = verdict([status(0, waiting_in="recv"), gone(1), gone(2), gone(3)], {0})
    assert proof[0].collective is None
    assert proof[0].missing == ()


def test_a_stopped_rank_explains_why_the_others_wait():
    statuses = [status(rank, [collective()]) for rank in (0, 1, 3)]
    proof = verdict(statuses, set(EVERYONE), stopped={2})
    assert proof[2].state == "stopped"
    assert proof[0].missing == (2,)


def test_a_rank_that_does_not_answer_is_no_proof():
    statuses = [one for one in SKIPPED if one.rank != 1]
    assert verdict(statuses, {0, 1, 3}) is None


def test_nobody_running_is_nothing_to_prove():
    assert verdict([gone(rank) for rank in EVERYONE], set()) is None


def test_the_first_collective_that_does_not_fit_is_told_where_ranks_agree_who_is_in_the_group():
    at = [dataclasses.replace(collective(seq=n, size=1), time_ns=n) for n in (1, 2, 3)]
    other = [at[0], *(dataclasses.replace(one, sizes=((9,),)) for one in at[1:])]
    recorded, groups = {0: reversed(at), 1: other}, {0: {"0": (0, 1)}, 1: {"0": (0, 1)}}
    assert first_misfit(recorded, groups) == {0: at[1], 1: other[1]}
    recorded = {0: at, 1: other}
    assert first_misfit(recorded, {**groups, 1: {"0": (1, 0)}}) is None
    assert first_misfit(recorded, {0: {"0": (0, 1)}}) is None
    assert first_misfit(recorded, {}) is None
    assert first_misfit({0: at, 1: at}, groups) is None


# -- ranks that use GPUs: what NCCL does is not recorded here ----------------------------------------------------------


def on_gpus(rank, records=(), **fields):
    return status(rank, records, uses_gpus=True, seen_through=False, **fields)


def test_no_record_no_proof_where_the_collective_may_be_nccls():
    """With TORCH_NCCL_BLOCKING_WAIT ranks sleep in a collective that all have joined while their GPUs compute."""
    still = found([on_gpus(0), on_gpus(1)], {0, 1})
    assert not still.proved
    assert still.may_resume
    assert "no record tells what rank 0 waits for" in still.doubts[0]


def test_a_rank_that_has_left_is_no_proof_either_where_nothing_is_recorded():
    assert not found([on_gpus(0), gone(1)], {0}).proved


def test_a_recorded_collective_of_gloos_is_proved_as_ever_on_ranks_that_use_gpus():
    statuses = [on_gpus(0, [collective()]), on_gpus(1, [collective()]), gone(2), on_gpus(3, [collective()])]
    assert found(statuses, {0, 1, 3}).proved


def test_a_call_without_a_record_is_proved_as_ever_where_no_gpu_is_used():
    assert found([status(0, waiting_in="recv"), gone(1)], {0}).proved


def test_a_brief_look_has_no_records_at_all_and_leaves_it_to_the_next_one():
    statuses = [on_gpus(0, brief=True), on_gpus(1, brief=True)]
    assert found(statuses, {0, 1}).proved


def test_a_rank_that_waits_for_its_gpu_may_go_on_whatever_the_others_do():
    waits = on_gpus(0, waiting_in=None, pause=("item()", "gpu"))
    still = found([waits, on_gpus(1, [collective()]), gone(2)], {0, 1})
    assert still.may_resume
    assert "rank 0 waits in item() for its GPU, which may still compute" in still.doubts
