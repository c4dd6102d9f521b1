"""A collective of the script's own inside Join, which meets Join's on ranks that have no batches left."""

import dataclasses

import pytest

from realranks.doctor.diagnose import diagnose
from realranks.outcome.outcome import Ending, Waiting
from realranks.outcome.places import Frame
from tests.support.outcomes import died, outcome
from tests.support.watched import SCRIPT, record

BLOCK = Frame(SCRIPT, 3, "train", "with ddp.join():")


def joins(seq, *, done=True, at_end=False):
    """One of Join's own: before a pass (line 4), or at the line of the block, where a rank without batches is."""
    made = record("join", 3 if at_end else 4, seq=seq, size=1, dtype="Long")
    return dataclasses.replace(made, done=done, origin=BLOCK if at_end else made.origin)


def own(seq, line=7, *, done=True):
    return dataclasses.replace(record("", line, seq=seq, size=1), done=done)


def gradients(seq):
    return dataclasses.replace(record("gradients", 5, seq=seq), done=True)


def aborted(*records):
    """Rank 0, at the block's line, received more than it expected."""
    return died(
        {0: -6},
        world_size=2,
        last_places={0: (BLOCK,)},
        recorded={1: records},
        stderr={0: "what(): op.preamble.length <= op.nbytes. 8 vs 4."},
    )


def test_the_collective_of_ones_own_is_named_and_not_the_line_of_the_block():
    at_end = (joins(4, at_end=True), joins(5, done=False, at_end=True))
    found = diagnose(aborted(joins(1), gradients(2), own(3), *at_end))
    assert (found.kind, found.culprits) == ("own_collective_in_join", ())
    assert (
        f"rank 1 calls all_reduce() (1 float32) at {own(3).where}; rank 0 has no batches left"
        in found.summary
    )
    assert "rank 0 died" in found.summary
    assert "lesson 05" in found.lesson


def test_what_was_called_behind_an_earlier_block_is_not_to_blame():
    earlier = (joins(1), own(2), joins(3, at_end=True), joins(4, at_end=True), own(5, line=9))
    found = diagnose(aborted(*earlier, joins(6), gradients(7), joins(8, done=False, at_end=True)))
    assert found.kind == "different_sizes"
    assert "with ddp.join();" in found.summary


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ((own(1), joins(2), gradients(3), joins(4, done=False, at_end=True)), "different_sizes"),
        ((joins(1), own(2), gradients(3), joins(4, done=False, at_end=True)), "own_collective_in_join"),
    ],
)
def test_only_what_is_called_inside_counts(records, kind):
    assert diagnose(aborted(*records)).kind == kind


def met(of_join):
    """Rank 1 waits in a collective of its own, which fits in size and not in type; rank 0 in one of Join's."""
    mine = own(4, done=False)
    waiting = {
        0: Waiting(0, "all_reduce", "", "", of_join, (), {1: mine}),
        1: Waiting(1, "all_reduce", "", "", mine, (), {0: of_join}),
    }
    return outcome(
        "hang",
        2,
        waiting=waiting,
        recorded={0: (joins(1), of_join), 1: (joins(1), gradients(2), mine)},
        proved=True,
        endings=dict.fromkeys((0, 1), Ending.FREED),
    )


def test_where_both_wait_the_same_is_said():
    assert diagnose(met(joins(4, done=False, at_end=True))).kind == "own_collective_in_join"


def test_a_rank_that_still_has_batches_is_not_said_to_have_none():
    assert diagnose(met(joins(4, done=False))).kind != "own_collective_in_join"
