"""Whether two answers are wrong in the same way, on plain data; real ranks compare them in tests/answers."""

import pytest

from course_lib.grading import grader, likeness
from course_lib.grading.attempt import Attempt, End
from course_lib.tasks import find_task
from course_lib.tasks.task import Trial
from course_lib.tasks.weights import ROUNDING
from tests.support.outcomes import raised

OUGHT = {0: {"loss": 1.0, "gradients": [2.0, 3.0]}, 1: {"loss": 1.0, "gradients": [2.0, 3.0]}}


def does(loss, *gradients):
    return {rank: {"loss": loss, "gradients": [*gradients]} for rank in (0, 1)}


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        (does(1.0, 1.0, 3.0), does(1.0, 1.0, 3.0), likeness._EVERYTHING),
        (does(1.0, 1.0, 3.0), does(1.0, 1.0, 1.5), set()),  # another value where it is wrong
        (does(1.0, 1.0, 3.0), does(5.0, 1.0, 3.0), set()),  # the other one is wrong in a second part
        (does(5.0, 1.0, 3.0), does(1.0, 1.0, 3.0), {"gradients"}),  # it is not to blame for the loss
        (does(5.0, 1.0, 3.0), does(1.0, 2.0, 3.0), set()),
        (does(1.0, 2.0, 3.0), does(1.0, 2.00001, 3.0), likeness._EVERYTHING),  # as far as rounding goes
        (does(1.0, 1.0, 3.0), ("hang", ()), set()),
        (("hang", ("waits",)), ("hang", ("waits",)), likeness._EVERYTHING),
    ],
)
def test_what_is_wrong_is_compared(one, other, parts):
    found = likeness._Likeness(ROUNDING)
    found.compare(one, other, OUGHT)
    assert found.parts() == parts


def test_an_ending_alone_is_not_everything():
    found = likeness._Likeness(ROUNDING)
    found.compare(does(1.0, 1.0, 3.0), does(1.0, 2.0, 3.0), OUGHT)
    found.compare(("died", ("left", "died")), ("died", ("left", "died")), {})
    assert found.parts() == {likeness._ENDING}


def test_a_known_answer_that_is_wrong_in_some_cases_only_explains_no_part_of_the_others():
    found = likeness._Likeness(ROUNDING)
    found.compare(does(5.0, 1.0, 3.0), does(5.0, 1.0, 3.0), OUGHT)
    found.compare(does(5.0, 1.0, 3.0), does(5.0, 2.0, 3.0), OUGHT)
    assert found.parts() == set()


def test_no_further_case_is_run_where_no_part_can_be_alike_any_more():
    asked = [likeness._Asked({}, does(5.0, 1.0, 3.0), OUGHT), likeness._Asked({}, ("died", ()), {})]
    found = likeness._Likeness(ROUNDING)
    found.compare(asked[0].did, does(1.0, 2.0, 3.0), asked[0].ought)
    assert found.hopeless(likeness._parts(asked[:1]))
    assert not found.hopeless(likeness._parts(asked))  # it may still end in the same way


def test_nothing_is_compared_with_a_slip_of_the_pen():
    task = find_task("wrappers.contrast")
    for name, cases in {"RuntimeError": 1, "NameError": 0}.items():
        outcome = raised(0, name=name)
        broke = Attempt((), (), End.BROKE, outcome, world_size=1, case={"sizes": [3]})
        assert len(likeness._asked(task, broke)[1]) == cases


def test_what_is_no_observation_counts_as_failed_and_breaks_nothing():
    task = find_task("wrappers.contrast")
    forged = Trial(1, {"seed": 1, "sizes": [3]}, {"right": [{"loss": 1.0, "gradients": [1.0]}]}, {0: 5})
    _, (asked,) = likeness._asked(task, Attempt((forged,), ("",), End.COMPLETE))
    assert asked.did == {0: 5}


def test_nothing_is_run_for_an_answer_that_passes(monkeypatch):
    monkeypatch.setattr(likeness, "Gangs", None)
    monkeypatch.setattr(grader, "attempt", lambda *_: Attempt((), (), End.COMPLETE))
    assert grader.grade("wrappers.contrast", "def contrast(): pass").passed
