"""Ranks that meet in collectives that do not fit: who is named, of what kind it is, and which rule speaks first."""

import dataclasses

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.doctor.mismatches import mismatch_in_passing
from realranks.outcome.facts import Facts
from realranks.outcome.places import Frame
from realranks.ranks.kernel import gang
from tests.support.outcomes import blocked, collective, meeting, outcome, stuck
from tests.support.watched import SCRIPT, models, notes, record, under_a_condition, watched

REDUCE, SMALL, DOUBLE = record("", 5), record("", 5, size=4), record("", 5, dtype="Double")
OTHER_LINE = record("", 6, size=4)
BARRIER = record("", 12, op="barrier")
GATHER, SCATTER = record("", 14, op="all_gather"), record("", 16, op="scatter")
GRADIENTS, BUFFERS = record("gradients", 9), record("buffers", 8, op="broadcast")
JOIN = record("join", 7, size=1)


def said(outcome):
    """The kind and the culprits."""
    found = diagnose(outcome)
    return found.kind, found.culprits


@pytest.mark.parametrize(
    ("brought", "kind", "culprits"),
    [
        ((REDUCE, REDUCE, SMALL), "different_sizes", ()),
        ((SMALL, REDUCE, REDUCE), "different_sizes", ()),
        ((REDUCE, SMALL), "different_sizes", ()),
        ((REDUCE, OTHER_LINE, REDUCE), "different_collectives", (1,)),
        ((REDUCE, REDUCE, DOUBLE), "different_dtypes", ()),
        ((REDUCE, REDUCE, record("", 5, size=4, dtype="Double")), "different_sizes", ()),
        ((REDUCE, REDUCE, BARRIER), "different_collectives", (2,)),
        ((REDUCE, BARRIER), "different_collectives", ()),
        ((REDUCE, REDUCE, BARRIER, BARRIER), "different_collectives", ()),
        ((REDUCE, SMALL, DOUBLE), "different_sizes", ()),
        ((REDUCE, SMALL, BARRIER), "different_collectives", ()),
        ((REDUCE, GATHER, BARRIER), "different_collectives", ()),
        ((REDUCE, REDUCE, REDUCE, SMALL, BARRIER), "different_collectives", (3, 4)),
        ((REDUCE, REDUCE, REDUCE, GATHER, BARRIER), "different_collectives", (3, 4)),
        ((GATHER, BARRIER, REDUCE, REDUCE, REDUCE), "different_collectives", (0, 1)),
    ],
)
def test_ranks_that_bring_different_things_to_a_collective(brought, kind, culprits):
    assert said(meeting(*brought)) == (kind, culprits)


def test_of_many_sizes_each_is_told_and_no_majority_is_right():
    found = diagnose(meeting(SMALL, record("", 5, size=6), REDUCE, REDUCE, REDUCE))
    assert (found.kind, found.culprits) == ("different_sizes", ())
    for brought in (
        "rank 0 brings all_reduce() (4",
        "rank 1 brings all_reduce() (6",
        "ranks 2-4 bring all_reduce() (8",
    ):
        assert brought in found.summary


def test_a_root_that_alone_has_tensors_to_give_stands_on_the_same_side_as_the_others():
    root = dataclasses.replace(SCATTER, sizes=((8,), (8,), (8,)))
    assert said(meeting(root, SCATTER, SCATTER, BARRIER)) == ("different_collectives", (3,))


def test_ranks_that_have_gone_on_are_on_the_side_on_which_a_waiting_rank_knows_them():
    """A scatter is over for those who have received their part, while its root still waits for another rank."""
    later = record("", 17, seq=2)
    waiting = [
        blocked(0, "scatter", collective=SCATTER, mismatch={3: BARRIER}),
        *(blocked(rank, "all_reduce", [0, 3], later) for rank in (1, 2)),
        blocked(3, "barrier", collective=BARRIER, mismatch=dict.fromkeys(range(3), SCATTER)),
    ]
    assert said(stuck(*waiting, world_size=4)) == ("different_collectives", (3,))


def test_all_ranks_that_wait_under_the_number_are_on_a_side_and_no_others():
    one = blocked(0, "all_reduce", collective=REDUCE, mismatch={1: SMALL})
    same = blocked(2, "all_reduce", collective=REDUCE)
    assert said(stuck(one, same, world_size=3)) == ("different_sizes", ())
    assert (
        "rank 1 brings all_reduce() (4 float32), ranks 0 and 2 bring"
        in diagnose(stuck(one, same, world_size=3)).summary
    )
    for elsewhere in (record("", 5, seq=2), dataclasses.replace(REDUCE, group="1")):
        assert said(stuck(one, blocked(2, "all_reduce", collective=elsewhere), world_size=3)) == (
            "different_sizes",
            (),
        )
    unaware = blocked(0, "wait"), blocked(1, "all_reduce", collective=REDUCE, mismatch={2: SMALL})
    assert said(stuck(*unaware, world_size=3)) == ("different_sizes", ())


def test_ranks_whose_collectives_fit_after_all_are_not_judged_here():
    one = blocked(0, "all_reduce", [1], REDUCE, mismatch={1: REDUCE})
    assert said(stuck(one)) == ("rank_left", (1,))


def test_a_line_is_taken_from_the_ranks_own_record_of_the_same_number():
    bare = dataclasses.replace(SMALL, origin=None)
    one = blocked(0, "all_reduce", collective=REDUCE, mismatch={1: dataclasses.replace(BARRIER, origin=None)})
    records = (record("", 3, seq=2), dataclasses.replace(bare, group="1"), BARRIER)
    under = {0: (REDUCE,), 1: records}
    found = diagnose(stuck(one, recorded=under))
    assert "rank 1 in barrier() (8 float32)" in found.summary
    assert found.kind == "different_collectives"


# -- a condition on the rank -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brought", "under", "kind", "culprits"),
    [
        ((REDUCE, BARRIER), [12], "rank_only_collective", (1,)),
        ((BARRIER, REDUCE), [12], "rank_only_collective", (0,)),
        ((REDUCE, REDUCE, BARRIER, BARRIER), [12], "rank_only_collective", (2, 3)),
        ((REDUCE, REDUCE, BARRIER), [12], "rank_only_collective", (2,)),
        ((REDUCE, BARRIER, BARRIER), [12], "rank_only_collective", (1, 2)),
        ((REDUCE, BARRIER), [5, 12], "different_collectives", ()),
        ((REDUCE, OTHER_LINE), [6], "rank_only_collective", (1,)),
        ((REDUCE, OTHER_LINE), [5, 6], "different_collectives", ()),
    ],
)
def test_a_condition_on_the_rank_says_who_did_something_else(monkeypatch, brought, under, kind, culprits):
    under_a_condition(monkeypatch, *under)
    assert said(meeting(*brought)) == (kind, culprits)


def test_a_collective_without_a_line_has_the_condition_of_the_line_at_which_its_rank_waits(monkeypatch):
    under_a_condition(monkeypatch, 12)
    waits = {
        rank: blocked(
            rank,
            "barrier",
            collective=dataclasses.replace(mine, origin=None),
            mismatch={1 - rank: theirs},
            stack=(Frame(SCRIPT, mine.origin.line, "train", "code"),),
        )
        for rank, (mine, theirs) in enumerate(((REDUCE, BARRIER), (BARRIER, REDUCE)))
    }
    assert said(stuck(*waits.values())) == ("rank_only_collective", (1,))


# -- DDP's own ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brought", "kind", "culprits"),
    [
        ((GRADIENTS, record("gradients", 9, size=4), GRADIENTS), "different_sizes", ()),
        ((GRADIENTS, record("gradients", 10, size=4), GRADIENTS), "different_order", ()),
        ((GRADIENTS, record("gradients", 10, size=4)), "different_order", ()),
        ((GRADIENTS, BARRIER, BARRIER), "missing_backward", (0,)),
        ((BARRIER, BARRIER, GRADIENTS), "missing_backward", (2,)),
        ((GRADIENTS, GRADIENTS, BARRIER), "missing_backward", (2,)),
        ((BARRIER, GRADIENTS, GRADIENTS), "missing_backward", (0,)),
        ((GRADIENTS, BARRIER), "missing_backward", ()),
        ((GRADIENTS, GRADIENTS, BUFFERS), "missing_backward", (2,)),
        ((GRADIENTS, BUFFERS, BUFFERS), "missing_backward", (0,)),
        ((GRADIENTS, GRADIENTS, record("", 12, size=4)), "missing_backward", (2,)),
        ((BUFFERS, BUFFERS, BARRIER), "different_collectives", (2,)),
        ((GRADIENTS, GRADIENTS, JOIN), "join_on_some_ranks", (2,)),
        ((JOIN, JOIN, GRADIENTS), "join_on_some_ranks", (2,)),
        ((JOIN, GRADIENTS), "join_on_some_ranks", ()),
    ],
)
def test_what_ddp_issues_meets_something_else(brought, kind, culprits):
    assert said(meeting(*brought)) == (kind, culprits)


@pytest.mark.parametrize(
    ("entered", "kind"),
    [
        ((0, 1, 2), "missing_backward"),
        ((0, 2), "join_on_some_ranks"),
        ((1, 2), "join_on_some_ranks"),
        ((2,), "join_on_some_ranks"),
    ],
)
def test_where_all_have_been_in_join_it_is_not_lacking(entered, kind):
    brought = (GRADIENTS, GRADIENTS, JOIN)
    early = {rank: (record("join", 7, seq=0, size=1),) if rank in entered else () for rank in range(3)}
    recorded = {rank: (*early[rank], mine) for rank, mine in enumerate(brought)}
    assert said(meeting(*brought, recorded=recorded)) == (kind, (2,))


def test_join_meets_join():
    assert said(meeting(JOIN, JOIN, record("join", 7, size=2))) == ("different_sizes", ())


@pytest.mark.parametrize(
    ("brought", "under", "kind", "culprits"),
    [
        ((GRADIENTS, GRADIENTS, BARRIER), [9], "extra_backward", (0, 1)),
        ((GRADIENTS, BARRIER), [9], "extra_backward", (0,)),
        ((GRADIENTS, GRADIENTS, BARRIER), [12], "rank_only_collective", (2,)),
        ((GRADIENTS, BARRIER), [12], "rank_only_collective", (1,)),
        ((GRADIENTS, BARRIER, BARRIER), [12], "rank_only_collective", (1, 2)),
        ((GRADIENTS, GRADIENTS, BUFFERS), [8], "missing_backward", (2,)),
        ((GRADIENTS, BARRIER), [9, 12], "different_collectives", ()),
    ],
)
def test_a_condition_says_whether_the_backward_pass_or_the_other_collective_is_one_too_many(
    monkeypatch, brought, under, kind, culprits
):
    under_a_condition(monkeypatch, *under)
    assert said(meeting(*brought)) == (kind, culprits)


def did(forwards, backwards, batches):
    return {"forwards": forwards, "backwards": backwards, "batches": batches}


@pytest.mark.parametrize(
    ("there", "kind"),
    [
        (did(5, 5, 4), "uneven_batches"),
        (did(4, 4, 4), "uneven_batches"),
        (did(5, 4, 4), "missing_backward"),
        (did(4, 5, 4), "missing_backward"),
        (did(5, 5, 5), "missing_backward"),
        (did(5, 5, 6), "missing_backward"),
        (did(5, 5, 0), "missing_backward"),
    ],
)
def test_fewer_batches_explain_a_backward_pass_that_some_do_not_make_where_they_have_made_each_of_theirs(
    there, kind
):
    counts = (did(5, 5, 5), did(5, 5, 5), there)
    seen = meeting(
        GRADIENTS, GRADIENTS, BARRIER, facts=watched(*(notes(counts=each) for each in counts)).facts
    )
    found = diagnose(seen)
    assert (found.kind, found.culprits) == (kind, (2,))
    if kind == "uneven_batches":
        assert "after 4 batches" in found.summary
        assert "batch 5" in found.summary


def test_an_idle_ranks_open_collective_is_met_though_nobody_has_counted_its_passes():
    """The rank is not in this cell: its collective is left from an earlier one."""
    one, other = (blocked(rank, "backward", collective=GRADIENTS, mismatch={0: BARRIER}) for rank in (1, 2))
    assert said(stuck(one, other, world_size=3, ranks=(1, 2))) == ("missing_backward", (0,))


# -- which rule speaks first -------------------------------------------------------------------------------------------


def test_a_pass_that_one_rank_alone_has_made_is_told_before_the_models_and_the_stages_that_meet():
    common, extra = record("gradients", 9, 0, (20,)), record("gradients", 9, 1, (25,))
    recorded = {0: (common, extra), 1: (common, BUFFERS), 2: (common, BUFFERS)}
    calls = [{"first": 0, "last": [[number, "train.py, line 5"]]} for number in (0, 1, 0)]
    facts = watched(*(notes(models=models(0, 0), calls=each) for each in calls)).facts
    seen = meeting(extra, BUFFERS, BUFFERS, recorded=recorded, facts=facts)
    assert said(seen) == ("extra_backward", (0,))


def test_it_may_be_either_side_that_has_made_a_pass_too_many(monkeypatch):
    under_a_condition(monkeypatch, 25)
    common, extra = record("gradients", 9, 0, (20,)), record("gradients", 9, 1, (25,))
    recorded = {0: (common, BUFFERS), 1: (common, extra), 2: (common, extra)}
    assert said(meeting(BUFFERS, extra, extra, recorded=recorded)) == ("extra_backward", (1, 2))


@pytest.mark.parametrize(
    ("theirs", "said_of_it"),
    [
        (BUFFERS, ("different_order", ())),
        (record("gradients", 9, size=4), ("different_order", ())),
        (BARRIER, ("missing_backward", (2,))),
    ],
)
def test_models_in_different_orders_explain_what_meets_where_all_of_it_is_ddps(theirs, said_of_it):
    calls = [{"first": 0, "last": [[number, "train.py, line 5"]]} for number in (0, 1, 0)]
    facts = watched(*(notes(models=models(0, 0), calls=each) for each in calls)).facts
    assert said(meeting(GRADIENTS, GRADIENTS, theirs, facts=facts)) == said_of_it


def after(*lines, stage=""):
    """A rank's collectives from these lines, one after the other; each line has its own size."""
    return tuple(record(stage, line, seq, size=line) for seq, line in enumerate(lines, 1))


@pytest.mark.parametrize(
    ("stage", "said_of_it"), [("", ("skipped_collective", (2,))), ("gradients", ("different_order", ()))]
)
def test_a_collective_left_out_is_told_before_the_sizes_that_meet_unless_ddp_has_issued_them(
    stage, said_of_it
):
    full, short = after(5, 6, 7, stage=stage), after(6, 7, stage=stage)
    seen = meeting(full[0], full[0], short[0], recorded={0: full, 1: full, 2: short})
    assert said(seen) == said_of_it


# -- seen afterwards ---------------------------------------------------------------------------------------------------


def passed(*brought):
    """Every rank has gone on after the one collective that it has issued."""
    groups = Facts(groups={"0": tuple(range(len(brought)))})
    ranks = range(len(brought))
    recorded = {rank: (mine,) for rank, mine in enumerate(brought)}
    return outcome("ok", len(brought), recorded=recorded, facts=dict.fromkeys(ranks, groups))


@pytest.mark.parametrize(
    ("brought", "kind"),
    [
        ((REDUCE, REDUCE, SMALL), "different_sizes"),
        ((SMALL, REDUCE, REDUCE), "different_sizes"),
        ((REDUCE, SMALL), "different_sizes"),
        ((REDUCE, REDUCE, DOUBLE), "different_dtypes"),
        ((REDUCE, BARRIER, REDUCE), "different_collectives"),
        ((REDUCE, GATHER, BARRIER), "different_collectives"),
        ((REDUCE, SMALL, record("", 5, size=2)), "different_sizes"),
        ((REDUCE, REDUCE, REDUCE, SMALL, record("", 5, size=2)), "different_sizes"),
        ((REDUCE, SMALL, DOUBLE), "different_sizes"),
        ((REDUCE, SMALL, BARRIER), "different_collectives"),
        ((SCATTER, dataclasses.replace(SCATTER, sizes=()), BARRIER), "different_collectives"),
    ],
)
def test_what_has_met_in_passing_is_told_of_all_and_no_majority_is_right(brought, kind):
    found = mismatch_in_passing(passed(*brought))
    assert (found.kind, found.culprits) == (kind, ())
    for rank, mine in enumerate(brought):
        assert mine.where in found.summary, f"what rank {rank} brought is told"
    assert gang._has_mismatch(passed(*brought)), "so the kernel asks in which lines"


def test_collectives_that_fit_are_no_garbage():
    assert mismatch_in_passing(passed(REDUCE, record("", 6))) is None
    assert mismatch_in_passing(passed(SCATTER, dataclasses.replace(SCATTER, sizes=((3,),)))) is None
    assert mismatch_in_passing(dataclasses.replace(passed(REDUCE, SMALL), facts={})) is None
    assert not gang._has_mismatch(passed(REDUCE, record("", 6)))
    assert not gang._has_mismatch(dataclasses.replace(passed(REDUCE, SMALL), recorded={}))


def test_the_first_of_several_that_do_not_fit_is_told():
    early, late = collective(seq=1, size=3), collective(seq=2, size=4)
    seen = passed(REDUCE, REDUCE)
    first = dataclasses.replace(early, sizes=((5,),))
    recorded = {0: (early, late), 1: (first, dataclasses.replace(late, dtypes=("Double",)))}
    assert mismatch_in_passing(dataclasses.replace(seen, recorded=recorded)).kind == "different_sizes"
