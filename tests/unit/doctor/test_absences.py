"""Ranks that wait for others which have left, for each other, or for nobody: who is named, and by which rule."""

import re

import pytest

from realranks.doctor import loops
from realranks.doctor.diagnose import diagnose
from realranks.doctor.hangs import explain_hang
from realranks.outcome.facts import Facts
from realranks.outcome.partners import Partners
from realranks.outcome.places import Frame
from realranks.outcome.wrapped import NamedShape, WrappedModel
from realranks.ranks.status import MAX_RECORDS
from tests.support.outcomes import blocked, collective, outcome, stuck
from tests.support.watched import SCRIPT, models, notes, record, under_a_condition, watched

BARRIER = record("", 5, op="barrier")
IN_DDP = {"gradients": "backward", "buffers": "forward", "rebuild": "forward", "construction": "forward"}


def said(outcome):
    """The kind and the culprits."""
    found = diagnose(outcome)
    return found.kind, found.culprits


# -- who is named ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "world_size", "culprits"),
    [
        ({0: [2], 1: [2]}, 3, (2,)),
        ({0: [1, 2], 1: [2]}, 3, (2,)),
        ({0: [3], 1: [2]}, 4, (2, 3)),
        ({1: [0], 2: [0]}, 3, (0,)),
        ({0: [1, 2, 3]}, 4, (1, 2, 3)),
    ],
)
def test_the_ranks_that_some_wait_for_and_that_wait_nowhere_themselves_have_left(
    missing, world_size, culprits
):
    waiting = [blocked(rank, "barrier", others, BARRIER) for rank, others in missing.items()]
    assert said(stuck(*waiting, world_size=world_size)) == ("rank_left", culprits)


def test_only_ranks_that_wait_in_a_hang_wait_for_somebody_who_has_left():
    waiting = blocked(0, "barrier", [1], BARRIER)
    assert explain_hang(outcome("raises", 2, waiting={0: waiting})) is None
    assert explain_hang(outcome("hang", 2, waiting={0: blocked(0, None, [1], state="computing")})) is None


@pytest.mark.parametrize(
    ("ran", "missing", "says"),
    [
        ((0, 1), [2], "rank 2, which does not run this cell."),
        ((0, 1), [2, 3], "ranks 2 and 3, which do not run this cell."),
        ((0, 1, 2), [2], "rank 2, which has left the cell without joining."),
        ((0, 1, 2, 3), [2, 3], "ranks 2 and 3, which have left the cell without joining."),
        (
            (0, 1, 2),
            [2, 3],
            "ranks 2 and 3, which do not run this cell or have left the cell without joining.",
        ),
    ],
)
def test_ranks_that_the_cell_does_not_run_on_are_told_from_those_that_have_left_it(ran, missing, says):
    waiting = [blocked(rank, "barrier", missing, BARRIER) for rank in (0, 1)]
    found = diagnose(stuck(*waiting, world_size=4, ranks=ran))
    assert (found.kind, found.culprits) == ("rank_left", tuple(missing))
    assert found.summary.endswith(says)


@pytest.mark.parametrize(
    ("mine", "theirs", "parted"),
    [
        ((10, 13), (7, 13), False),  # the branches of an `if`: each rank has its own
        ((14, 14), (24, 14), True),
    ],
)
def test_calls_at_two_lines_fit_by_chance_only_if_one_side_comes_to_the_line_of_the_other(
    mine, theirs, parted
):
    last = record("", 13, seq=3)
    here, there = (
        tuple(record("", line, seq=n) for n, line in enumerate(each, 1)) for each in (mine, theirs)
    )
    seen = stuck(blocked(0, "all_reduce", [1], last), recorded={0: (*here, last), 1: there})
    assert ("The first calls that met" in diagnose(seen).summary) is parted


@pytest.mark.parametrize("stage", ["gradients", "buffers", "join"])
def test_what_ranks_have_done_says_nothing_where_the_cell_leaves_out_others_that_are_waited_for(stage):
    mine = record(stage, 5)
    waiting = [blocked(rank, "backward", [0, 3], mine) for rank in (1, 2)]
    seen = stuck(*waiting, world_size=4, ranks=(1, 2, 3), recorded={1: (mine,), 2: (mine,)})
    assert said(seen) == ("rank_left", (0, 3))


@pytest.mark.parametrize(
    ("came", "says"),
    [
        ((4, 4, 3), "(it came to this line 3 times, and rank 0 came 4 times)"),
        ((2, 2, 1), "(it came to this line 1 time, and rank 0 came 2 times)"),
        ((4, 3, 3), "(they came to this line 3 times, and rank 0 came 4 times)"),
        ((4, 3, 2), None),
        ((4, 4, 0), None),
        ((1, 1, 1), None),
    ],
)
def test_how_often_ranks_came_to_a_line_is_told_where_all_that_have_left_came_equally_often(came, says):
    recorded = {
        rank: tuple(record("", 5, seq, op="barrier") for seq in range(number))
        for rank, number in enumerate(came)
    }
    gone = [rank for rank in range(3) if came[rank] < came[0]] or [2]
    waiting = [blocked(rank, "barrier", gone, BARRIER) for rank in range(3) if rank not in gone]
    found = diagnose(stuck(*waiting, world_size=3, recorded=recorded))
    assert (found.kind, found.culprits) == ("rank_left", tuple(gone))
    assert ("came" in found.summary) is (says is not None)
    assert (says or "") in found.summary


# -- nobody, and each other --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        (("recv", "recv"), "nobody_answers"),
        (("send", "send"), "nobody_answers"),
        (("wait", "wait"), "nobody_answers"),
        (("recv", "send"), "unknown"),
    ],
)
def test_ranks_that_lack_nobody_are_explained_where_all_wait_in_the_same_call(calls, kind):
    assert said(stuck(*(blocked(rank, call) for rank, call in enumerate(calls)))) == (kind, ())


RECEIVE, SEND = Partners("irecv", source=0), Partners("isend", to=0)


@pytest.mark.parametrize(
    ("call", "partners", "kind"),
    [
        ("send", None, "waiting_in_a_circle"),
        ("recv", None, "waiting_in_a_circle"),
        ("batch_isend_irecv", None, "waiting_in_a_circle"),
        ("wait", RECEIVE, "waiting_in_a_circle"),
        ("wait", SEND, "waiting_in_a_circle"),
        (None, RECEIVE, "waiting_in_a_circle"),
        ("wait", Partners("recv", source=0), "waiting_in_a_circle"),
        ("wait", Partners("send", to=0), "waiting_in_a_circle"),
        ("wait", Partners("monitored_barrier"), "waiting_in_a_circle"),
    ],
)
def test_a_circle_is_one_of_collectives_and_of_sends_and_receives(call, partners, kind):
    seen = stuck(blocked(0, "barrier", [1], BARRIER), blocked(1, call, [0], partners=partners))
    assert said(seen) == (kind, ())


def test_a_circle_of_sends_and_receives_alone_says_who_waits_for_whom():
    alone = diagnose(stuck(*(blocked(rank, "recv", [1 - rank]) for rank in range(2))))
    assert (alone.kind, alone.culprits) == ("waiting_in_a_circle", ())
    assert "rank 0 waits in recv() at train.py, line 5 for rank 1; rank 1 waits in recv()" in alone.summary
    assert "batch_isend_irecv" in alone.advice
    mixed = diagnose(stuck(blocked(0, "recv", [1]), blocked(1, "barrier", [0], BARRIER)))
    assert mixed.advice == "every rank must issue the same collectives in the same order."


TO, FROM = (
    {"call": "send", "partners": Partners("send", to=1)},
    {"call": "recv", "partners": Partners("recv")},
)


@pytest.mark.parametrize(
    ("waits", "gone", "lacks"),
    [
        ({0: (FROM, [1]), 1: (FROM, [2])}, (2,), "without sending it"),
        ({0: (FROM, [1]), 1: (TO, [2])}, (2,), "without receiving it"),
        ({0: (TO, [2]), 1: (TO, [2])}, (2,), "without receiving it"),
        ({0: (FROM, [2]), 1: (TO, [3])}, (2, 3), "without the other half"),
        ({0: (FROM, [3])}, (3,), "without sending it"),
    ],
)
def test_sends_and_receives_that_lack_a_rank_that_has_left_name_it_with_its_half(waits, gone, lacks):
    waiting = [blocked(rank, missing=missing, **how) for rank, (how, missing) in waits.items()]
    found = diagnose(stuck(*waiting, world_size=4))
    assert (found.kind, found.culprits) == ("nobody_answers", gone)
    assert lacks in found.summary


def test_beside_a_collective_or_for_ranks_outside_the_cell_a_receive_is_a_wait_like_others():
    receive = blocked(1, "recv", [2], partners=Partners("recv", source=2))
    assert said(stuck(blocked(0, "barrier", [1, 2], BARRIER), receive, world_size=3)) == ("rank_left", (2,))
    assert said(stuck(receive, world_size=3, ranks=(0, 1))) == ("rank_left", (2,))


SAME = {"0": (0, 1), "1": (0, 1)}


@pytest.mark.parametrize(
    ("theirs", "line", "groups", "kind"),
    [
        (collective(group="1"), 5, SAME, "different_groups"),
        (collective(group="0"), 5, SAME, "waiting_in_a_circle"),
        (collective(group="1", size=2), 5, SAME, "waiting_in_a_circle"),
        (collective("barrier", group="1"), 5, SAME, "waiting_in_a_circle"),
        (collective(group="1"), 6, SAME, "waiting_in_a_circle"),
        (collective(group="1"), 5, {"0": (0, 1, 2), "1": (0, 1)}, "waiting_in_a_circle"),
    ],
)
def test_the_same_collective_at_the_same_line_in_groups_of_the_same_ranks_is_one_of_different_groups(
    theirs, line, groups, kind
):
    one = blocked(0, "all_reduce", [1], collective())
    other = blocked(1, "all_reduce", [0], theirs, where=f"train.py, line {line}")
    facts = dict.fromkeys((0, 1), Facts(groups=groups))
    assert said(stuck(one, other, facts=facts)) == (kind, ())


@pytest.mark.parametrize(
    ("stages", "said_of_it"),
    [
        (("gradients", "buffers", "buffers"), ("different_order", ())),
        (("gradients", "", "buffers"), ("waiting_in_a_circle", ())),
    ],
)
def test_a_circle_in_ddps_own_collectives_is_explained_by_models_in_different_orders(stages, said_of_it):
    calls = [{"first": 0, "last": [[number, "train.py, line 5"]]} for number in (1, 0, 0)]
    probes = watched(*(notes(models=models(0, 0), calls=each) for each in calls)).facts
    waiting = [blocked(rank, "wait", [(rank + 1) % 3], record(stage, 5)) for rank, stage in enumerate(stages)]
    assert said(stuck(*waiting, world_size=3, facts=probes)) == said_of_it


# -- Join, the constructor, a condition --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "gone", "culprits"), [((0,), (1, 2), (0,)), ((0, 1), (2,), (2,)), ((0,), (1,), ())]
)
def test_join_that_some_wait_in_and_others_have_never_entered(inside, gone, culprits):
    waiting = [blocked(rank, "forward", gone, record("join", 5)) for rank in inside]
    seen = stuck(*waiting, world_size=len(inside) + len(gone), recorded={gone[0]: (record("gradients", 5),)})
    assert said(seen) == ("join_on_some_ranks", culprits)


def test_ranks_that_have_been_in_join_and_ranks_beside_it_are_not_told_to_enter_it():
    mine = record("join", 5)
    waiting = [blocked(rank, "forward", [1, 2], mine) for rank in (0, 3)]
    assert said(stuck(*waiting, world_size=4, recorded={2: (mine,)})) == ("rank_left", (1, 2))
    beside = blocked(1, "barrier", [2], BARRIER)
    seen = stuck(
        blocked(0, "forward", [1, 2], mine), beside, blocked(3, "barrier", [2], BARRIER), world_size=4
    )
    assert said(seen)[0] == "join_on_some_ranks"
    assert diagnose(seen).summary.startswith("Only rank 0 trains inside Join")


@pytest.mark.parametrize(
    ("wrapping", "gone", "culprits"),
    [((0, 1), (2,), (2,)), ((0,), (1, 2), (0,)), ((0,), (1,), (1,)), ((0, 3), (1, 2), (1, 2))],
)
def test_a_constructor_that_some_ranks_do_not_call_names_the_fewer_and_on_a_tie_those(
    wrapping, gone, culprits
):
    waiting = [
        blocked(rank, "DistributedDataParallel()", gone, record("construction", 5)) for rank in wrapping
    ]
    seen = stuck(*waiting, world_size=len(wrapping) + len(gone))
    assert said(seen) == ("ddp_on_some_ranks", culprits)


@pytest.mark.parametrize(
    ("waiting", "through", "gone", "said_of_it"),
    [
        ((0,), (), (1, 2), ("rank_only_collective", (0,))),
        ((0,), (), (1,), ("rank_only_collective", (0,))),
        ((0, 1), (), (2,), ("rank_left", (2,))),
        ((0,), (1,), (2, 3), ("rank_only_collective", (0, 1))),
        ((0,), (1,), (2,), ("rank_left", (2,))),
    ],
)
def test_a_line_under_a_condition_names_those_who_came_to_it_unless_they_are_the_majority(
    monkeypatch, waiting, through, gone, said_of_it
):
    """Who came are those that wait there, and those for which it is over: a broadcast's root does not wait."""
    under_a_condition(monkeypatch, 5)
    mine = record("", 5, seq=7, op="broadcast")
    recorded = {
        **dict.fromkeys((*waiting, *through), (mine,)),
        gone[0]: (record("", 4, seq=6, op="broadcast"),),
    }
    seen = stuck(
        *(blocked(rank, "broadcast", gone, mine) for rank in waiting),
        world_size=len(waiting) + len(through) + len(gone),
        recorded=recorded,
    )
    assert said(seen) == said_of_it


def test_another_number_and_another_group_are_not_the_collective_that_ranks_came_to(monkeypatch):
    under_a_condition(monkeypatch, 5)
    mine = record("", 5, seq=7, op="broadcast")
    recorded = {
        1: (record("", 4, seq=6, op="broadcast"), collective("broadcast", seq=7, group="1")),
    }
    seen = stuck(blocked(0, "broadcast", [2], mine), world_size=3, recorded=recorded)
    assert said(seen) == ("rank_only_collective", (0,))


def test_the_condition_of_a_wait_without_a_record_stands_around_its_line(monkeypatch):
    under_a_condition(monkeypatch, 5)
    stack = (Frame(SCRIPT, 5, "train", "code"),)
    assert said(stuck(blocked(0, "monitored_barrier", [1], stack=stack))) == ("rank_only_collective", (0,))
    assert said(stuck(blocked(0, "monitored_barrier", [1]))) == ("rank_left", (1,))


def test_a_condition_around_a_forward_pass_is_told_before_numbers_and_one_around_a_backward_pass_is_not(
    monkeypatch,
):
    under_a_condition(monkeypatch, 5)
    for stage, kind in (("buffers", "rank_only_collective"), ("gradients", "uneven_batches")):
        facts = watched(notes(counts={"batches": 5}), notes(counts={"batches": 4})).facts
        other = 4 if stage == "buffers" else 5
        recorded = {0: (record(stage, other, 1), record(stage, 5, 2)), 1: (record(stage, other, 1),)}
        seen = stuck(blocked(0, IN_DDP[stage], [1], record(stage, 5, 2)), facts=facts, recorded=recorded)
        assert diagnose(seen).kind == kind


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "wanted", "kind"),
    [
        ({"tag": 3}, {"source": 0, "tag": 4}, "different_tags"),
        ({"tag": 3}, {"tag": 4}, "different_tags"),
        ({"tag": 3, "group": "1"}, {"source": 0, "tag": 3, "group": "0"}, "different_groups"),
        ({"tag": 3}, {"source": 0}, "waiting_in_a_circle"),
        ({"tag": 3, "group": "1"}, {"source": 0, "tag": 3}, "waiting_in_a_circle"),
    ],
)
def test_a_message_that_is_not_the_one_wanted_is_told(sent, wanted, kind):
    one = blocked(0, "send", [1], partners=Partners("send", to=1, **sent))
    other = blocked(1, "recv", [0], partners=Partners("recv", **wanted))
    found = diagnose(stuck(one, other))
    assert (found.kind, found.culprits) == (kind, ())
    if kind == "different_tags":
        assert "message with tag 3, and rank 1 waits" in found.summary
        assert "for one with tag 4" in found.summary


# -- steps -------------------------------------------------------------------------------------------------------------


def wrapping(*sizes):
    """What a rank says of its DDP models, each of one parameter of so many elements."""
    return Facts(models=tuple(WrappedModel("Linear", (NamedShape("weight", (size,)),), 1) for size in sizes))


def left_a_loop(stage="gradients", came=(5, 4), counts=(), stays=1, sizes=(8,), **fields):
    """Some ranks wait in a step of DDP's at line 5 for the others, which have come there less often.

    `counts` are what a rank that waits and a rank that has left were seen to have done; nobody counted where empty.
    `sizes` are those of the DDP models of a rank; a pass there reduces 8 elements.
    """
    gone = range(stays, stays + fields.pop("leave", 1))
    world_size = gone.stop
    mine = record(stage, 5, came[0])
    recorded = {
        rank: tuple(record(stage, 5, seq) for seq in range(1, came[rank in gone] + 1))
        for rank in range(world_size)
    }
    facts = {rank: wrapping(*sizes) for rank in range(world_size)}
    if counts:
        facts = watched(*(notes(counts=counts[r in gone]) for r in range(world_size))).facts
    told = {"facts": facts}
    waiting = [blocked(rank, IN_DDP[stage], gone, mine) for rank in range(stays)]
    return stuck(*waiting, world_size=world_size, **{"recorded": recorded, **told, **fields})


def did(forwards, backwards, batches=0):
    return {"forwards": forwards, "backwards": backwards, "batches": batches}


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        ("gradients", "uneven_batches"),
        ("buffers", "uneven_batches"),
        ("rebuild", "uneven_batches"),
        ("construction", "rank_left"),
    ],
)
def test_a_step_that_ranks_wait_in_for_others_that_made_fewer_is_one_of_uneven_batches(stage, kind):
    assert said(left_a_loop(stage)) == (kind, (1,))
    assert said(left_a_loop(stage, stays=2, leave=2)) == (kind, (2, 3))


def test_a_wait_without_a_record_is_not_taken_for_a_step():
    other = blocked(1, "backward", [2], record("gradients", 5))
    assert said(stuck(blocked(0, "wait", [2]), other, world_size=3)) == ("rank_left", (2,))


@pytest.mark.parametrize(
    ("counts", "after", "reached"),
    [
        ((), "4 training steps", "training step 5"),
        ((did(8, 8, 7), did(8, 8, 6)), "6 batches", "batch 7"),
        ((did(8, 8, 7), did(6, 6, 6)), "6 batches", "batch 7"),
        ((did(8, 8), did(6, 6)), "6 training steps", "training step 8"),
        ((did(8, 8), did(6, 6, 5)), "6 training steps", "training step 8"),
        ((did(8, 8, 5), did(6, 6)), "6 training steps", "training step 8"),
    ],
)
def test_batches_are_told_where_they_differ_else_backward_passes(counts, after, reached):
    found = diagnose(left_a_loop(counts=counts))
    assert (found.kind, found.culprits) == ("uneven_batches", (1,))
    assert f"has finished after {after}, and" in found.summary
    assert f"waits in {reached}{' in ' if reached else ''}backward()" in found.summary


@pytest.mark.parametrize(
    ("buckets", "sizes", "steps"),
    [
        ((8,), (8,), (4, 5)),
        ((8,), (8, 5), (4, 5)),
        ((8,), (8, 8), None),
        ((2, 6), (2, 6), (2, 3)),
        ((3, 5), (8,), (2, 3)),
        ((8,), (4, 2), None),
        ((8,), (16,), (2, 3)),
        ((8,), (8, 16), None),
        ((8,), (), None),
    ],
)
def test_a_step_is_all_buckets_of_a_model_and_no_number_is_told_where_they_do_not_come_out_even(
    buckets, sizes, steps
):
    def passes(number):
        return tuple(record("gradients", 5, n, size=buckets[n % len(buckets)]) for n in range(number))

    found = diagnose(left_a_loop(sizes=sizes, recorded={0: passes(5), 1: passes(4)}))
    assert found.kind == "uneven_batches"
    told = tuple(int(number) for number in re.findall(r"(?<=step )\d+|\d+(?= training)", found.summary))
    assert told == (steps or ())


def test_a_record_that_is_full_tells_no_number_of_steps():
    records = {rank: tuple(record("gradients", 5, n) for n in range(MAX_RECORDS)) for rank in (0, 1)}
    assert "after fewer training steps, and" in diagnose(left_a_loop(recorded=records)).summary


GOES_ON = "for n in range(9):\n    try:\n\n        x = 1\n        step()\n    {handler}"


@pytest.mark.parametrize(
    ("handler", "counts", "may_have_caught"),
    [
        ("except RuntimeError:\n        continue", (), True),
        ("except (StopIteration, ValueError):\n        pass", (), True),
        ("except:\n        if n:\n            raise", (), True),
        ("except RuntimeError:\n        continue", (did(5, 5, 7), did(5, 5, 6)), False),
        ("except RuntimeError:\n        raise", (), False),
        ("except StopIteration:\n        break", (), False),
        ("finally:\n        pass", (), False),
    ],
)
def test_ranks_that_may_have_caught_an_error_are_not_told_to_even_out_their_batches(
    monkeypatch, handler, counts, may_have_caught
):
    source = GOES_ON.format(handler=handler).splitlines(keepends=True)
    monkeypatch.setattr("linecache.getlines", lambda file: source)
    loops._tries.cache_clear()
    found = diagnose(left_a_loop(counts=counts))
    loops._tries.cache_clear()
    assert found.kind == "uneven_batches"
    assert ("Join" not in found.advice) is may_have_caught
    assert ("let all ranks agree" in found.advice) is may_have_caught
    assert ("has left a step out" in found.evidence[-1]) is may_have_caught


def test_of_several_that_have_left_the_one_that_came_least_often_is_told():
    seen = left_a_loop(leave=2)
    seen.recorded[2] = seen.recorded[2][:2]
    found = diagnose(seen)
    assert (found.kind, found.culprits) == ("uneven_batches", (1, 2))
    assert "after 2 training steps" in found.summary


@pytest.mark.parametrize(
    ("counts", "kind", "number"),
    [
        ((did(5, 5), did(5, 4)), "missing_backward", "a backward pass"),
        ((did(5, 5), did(5, 3)), "missing_backward", "2 backward passes"),
        ((did(5, 5, 5), did(6, 4, 6)), "missing_backward", "2 backward passes"),
        ((did(5, 5, 5), did(5, 4, 4)), "missing_backward", "a backward pass"),
        ((did(8, 8), did(8, 8)), "missing_backward", "as many forward and backward passes"),
        ((did(5, 5, 5), did(4, 3, 4)), "uneven_batches", "4 batches"),
        ((did(5, 5, 5), did(5, 5, 4)), "uneven_batches", "4 batches"),
        ((did(5, 5, 5), did(5, 6, 4)), "uneven_batches", "4 batches"),
    ],
)
def test_as_many_forward_and_fewer_backward_passes_are_a_backward_pass_left_out(counts, kind, number):
    found = diagnose(left_a_loop(counts=counts))
    assert (found.kind, found.culprits) == (kind, (1,))
    assert number in found.summary


def test_in_a_forward_pass_the_last_backward_pass_has_been_made():
    assert said(left_a_loop("buffers", counts=(did(5, 5, 5), did(5, 4, 4)))) == ("uneven_batches", (1,))


@pytest.mark.parametrize(
    ("stays", "leave", "said_of_it"),
    [
        (1, 1, ("missing_backward", ())),
        (2, 1, ("missing_backward", (2,))),
        (2, 2, ("missing_backward", ())),
        (1, 2, ("extra_backward", (0,))),
    ],
)
def test_counts_say_who_left_a_backward_pass_out_and_without_them_only_the_fewer_are_marked(
    stays, leave, said_of_it
):
    counted = left_a_loop(counts=(did(5, 5), did(5, 4)), stays=stays, leave=leave)
    assert said(counted) == ("missing_backward", tuple(range(stays, stays + leave)))
    assert "left out a backward pass" in diagnose(counted).summary
    never_there = left_a_loop(came=(1, 0), stays=stays, leave=leave)
    assert said(never_there) == said_of_it
    assert "left out" not in diagnose(never_there).summary


@pytest.mark.parametrize(
    ("counts", "kind"),
    [((), "rank_left"), ((did(5, 5), did(5, 5)), "rank_left"), ((did(5, 5), did(4, 4)), "uneven_batches")],
)
def test_ranks_that_have_never_come_to_a_forward_pass_are_behind_where_they_have_made_fewer(counts, kind):
    assert said(left_a_loop("buffers", came=(1, 0), counts=counts)) == (kind, (1,))


def test_a_condition_says_why_only_some_make_a_backward_pass(monkeypatch):
    under_a_condition(monkeypatch, 5)
    assert "under `rank == 0`" in diagnose(left_a_loop(came=(1, 0), leave=2)).summary


def test_a_way_of_ones_own_is_told_before_numbers():
    def way(*callers):
        return tuple(record("gradients", 9, seq, (caller,)) for seq, caller in enumerate(callers, 1))

    seen = left_a_loop(leave=2, recorded={0: way(20, 25), 1: way(20), 2: way(20)})
    assert said(seen) == ("extra_backward", (0,))


def test_batches_that_were_drawn_and_not_trained_on_are_told_before_passes():
    assert said(left_a_loop(counts=(did(5, 5, 5), did(3, 2, 5)))) == ("missing_forward", (1,))


def with_model(*without, parameters=2):
    return Facts(models=(WrappedModel("Net", (), parameters, without),))


HALF, NONE, ALL = with_model("b"), with_model(), with_model("a", "b")


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({2: HALF, 3: HALF}, "unused_parameters"),
        ({1: HALF, 2: HALF, 3: with_model("a")}, "unused_parameters"),
        ({2: HALF, 3: NONE}, "missing_backward"),
        ({2: HALF}, "missing_backward"),
        ({2: ALL, 3: ALL}, "missing_backward"),
        ({2: NONE, 3: NONE}, "missing_backward"),
        ({0: HALF, 1: HALF}, "missing_backward"),
    ],
)
def test_some_parameters_without_a_gradient_on_all_that_have_left_are_unused_ones(facts, kind):
    culprits = (2, 3) if kind == "unused_parameters" else ()
    assert said(left_a_loop(came=(1, 0), stays=2, leave=2, facts=facts)) == (kind, culprits)


def noted(*without, parameters=2):
    return {
        "number": 0,
        "plain_forwards": 0,
        "bypassed": 0,
        "inputs": [],
        "events": {},
        "without_gradient": list(without),
        "parameters": parameters,
    }


@pytest.mark.parametrize(
    ("probe", "kind"),
    [
        ([noted("b")], "unused_parameters"),
        ([noted()], "missing_backward"),
        ([noted("a", "b")], "missing_backward"),
        ([noted(), noted("b")], "unused_parameters"),
        ([], "unused_parameters"),
    ],
)
def test_what_the_probe_saw_after_the_last_backward_pass_counts_before_what_the_rank_says_in_the_end(
    probe, kind
):
    each = (notes(counts=did(5, 5)), notes(counts=did(5, 4), models=probe))
    facts = watched(*each, facts={1: {"models": HALF.models}}).facts
    assert said(left_a_loop(facts=facts)) == (kind, (1,))
