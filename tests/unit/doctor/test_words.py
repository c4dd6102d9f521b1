"""What is said of a rank beside the others."""

import pytest

from realranks.doctor.words import positions
from realranks.outcome.outcome import RankState
from realranks.outcome.places import Frame
from tests.support.outcomes import blocked, stuck

TOP = Frame("/s/train.py", 30, "<module>", "main()")
TRAIN = Frame("/s/train.py", 18, "main", "loss.backward()")
SYNC = Frame("/s/train.py", 23, "main", "wait_for('x.pt')")
WAIT = Frame("/s/train.py", 9, "wait_for", "poll(path)")
POLL = Frame("/s/train.py", 5, "poll", "time.sleep(1)")


@pytest.mark.parametrize(
    ("stack", "caller"),
    [
        ((TOP, SYNC, WAIT, POLL), ", called from train.py, line 23"),
        ((TOP, SYNC, POLL), ", called from train.py, line 23"),
        ((TOP, SYNC), ""),
        ((TOP, WAIT, POLL), ", called from train.py, line 9"),
        ((TOP, POLL), ""),
    ],
)
def test_a_rank_that_sleeps_is_told_with_the_call_by_which_it_has_left_the_others(stack, caller):
    waits = blocked(0, "backward", (1,), where="train.py, line 18", stack=(TOP, TRAIN))
    sleeps = blocked(1, None, state=RankState.ASLEEP, stack=stack)
    line = positions(stuck(waits, sleeps), ())[1]
    assert line == f"rank 1  asleep, not in a collective at train.py, line 5: code{caller}"
