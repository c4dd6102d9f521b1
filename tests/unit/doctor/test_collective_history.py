"""One of several collectives left out, or one too many: told from what the ranks did there before."""

import pytest

from realranks.doctor.diagnose import diagnose
from tests.support.outcomes import meeting
from tests.support.watched import record

BACKWARD, METRIC, OTHER = ("gradients", 9), ("", 20), ("", 30)


def sequence(*steps):
    return tuple(
        record(stage, line, seq, size=1 if line == 20 else 8) for seq, (stage, line) in enumerate(steps, 1)
    )


def met(before, *now):
    """Ranks that have issued the same up to now, and then each its own."""
    recorded = {rank: sequence(*before, mine) for rank, mine in enumerate(now)}
    return diagnose(meeting(*(each[-1] for each in recorded.values()), recorded=recorded))


STEP = (BACKWARD, METRIC, METRIC)


@pytest.mark.parametrize("others", [1, 3])
def test_a_rank_that_left_one_of_several_out_is_named_whether_it_is_alone_or_not(others):
    found = met((*STEP, *STEP, BACKWARD, METRIC), METRIC, *[BACKWARD] * others)
    assert (found.kind, found.culprits) == ("skipped_collective", tuple(range(1, 1 + others)))
    assert "before, all ranks came to it at this point, after 1 call of it" in found.summary


def test_a_rank_that_issues_one_more_than_in_every_step_before_is_named():
    found = met((*STEP, *STEP, *STEP), METRIC, BACKWARD, BACKWARD)
    assert (found.kind, found.culprits) == ("extra_collective", (0,))
    assert "3 times in a row, and ranks 1 and 2 2 times" in found.summary
    assert "before, all ranks went on after 2 calls" in found.summary


@pytest.mark.parametrize(
    "before",
    [
        (METRIC, METRIC),  # the first time
        (BACKWARD, METRIC, METRIC),
        (*STEP, *STEP, METRIC, BACKWARD, METRIC, METRIC, OTHER, *STEP),  # three different ways on
    ],
)
def test_where_it_was_not_so_before_nobody_is_blamed(before):
    found = met(before, METRIC, BACKWARD, BACKWARD)
    assert (found.kind, found.culprits) == ("different_collectives", ())
    assert "what is right is not known" in found.summary


def test_two_collectives_of_the_script_are_told_apart_in_the_same_way():
    found = met((METRIC, METRIC, OTHER, METRIC, METRIC, OTHER, METRIC), METRIC, OTHER)
    assert (found.kind, found.culprits) == ("skipped_collective", (1,))
