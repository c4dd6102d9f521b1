"""Whether two answers are wrong in the same way, on plain data; real ranks compare them in tests/answers."""

import pytest

from course_lib.grading import grader, likeness
from course_lib.grading.attempt import Attempt, End
from course_lib.tasks import find_task
from course_lib.tasks.weights import ROUNDING
from tests.support.outcomes import raised

OUGHT = {0: {"loss": 1.0, "gradients": [2.0, 3.0]}, 1: {"loss": 1.0, "gradients": [2.0, 3.0]}}


def does(loss, *gradients):
    return {rank: {"loss": loss, "gradients": [*gradients]} for rank in (0, 1)}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (does(1.0, 1.0, 3.0), does(1.0, 1.0, 3.0), True),
        (does(1.0, 1.0, 3.0), does(1.0, 1.0, 1.5), False),  # another value where it is wrong
        (does(1.0, 1.0, 3.0), does(5.0, 1.0, 3.0), False),  # the other one is wrong in a second part
        (does(1.0, 2.0, 3.0), does(1.0, 2.00001, 3.0), True),  # both are right, as far as rounding goes
        (does(1.0, 1.0, 3.0), ("hang", ()), False),
        (("hang", ("waits",)), ("hang", ("waits",)), True),
    ],
)
def test_what_is_wrong_is_compared(one, other, same):
    assert likeness._same(one, other, OUGHT, ROUNDING) is same


def test_nothing_is_compared_with_a_slip_of_the_pen():
    task = find_task("wrappers.contrast")
    for name, cases in {"RuntimeError": 1, "NameError": 0}.items():
        outcome = raised(0, name=name)
        broke = Attempt((), (), End.BROKE, outcome, world_size=1, case={"sizes": [3]})
        assert len(likeness._asked(task, broke).cases) == cases


def test_nothing_is_run_for_an_answer_that_passes(monkeypatch):
    monkeypatch.setattr(likeness, "Gangs", None)
    monkeypatch.setattr(grader, "attempt", lambda *_: Attempt((), (), End.COMPLETE))
    assert grader.grade("wrappers.contrast", "def contrast(): pass").passed
