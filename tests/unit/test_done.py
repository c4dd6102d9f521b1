"""A rank's last word on a job: what it says is what is heard, and nonsense is an error of a kind that is expected."""

import json

import pytest

from course_lib.ranks.done import DONE, Done
from course_lib.ranks.protocol import Message
from tests.unit.outcomes import error

FULL = Done(
    error=error("ValueError", "no"),
    shown="3",
    value=b"\x80",
    not_sent={"text": "a lock", "reason": "cannot be pickled"},
    has_value=True,
    facts={"groups": {"0": [0, 1]}},
    records=({"group": "0", "seq": 1},),
    trace=({"name": "forward"},),
    never_struck=("The fault on rank 1 never struck.",),
    sequence={"0": 7},
    started_ns=5,
    ended_ns=9,
)


@pytest.mark.parametrize("done", [Done(), FULL, Done(records=(), has_value=True)])
def test_what_is_said_is_heard(done):
    sent = done.message(3)
    travelled = Message(sent.kind, json.loads(json.dumps(sent.data)), sent.blob)
    assert Done.of(travelled) == done
    assert (sent.kind, sent.data["id"]) == (DONE, 3)


def test_what_is_as_usual_is_not_said():
    assert Done().message(3).data == {"id": 3}


@pytest.mark.parametrize("data", [{"error": [1]}, {"error": {"type": "X"}}, {"records": 7}, {"nothing": 1}])
def test_nonsense_is_an_error_that_the_grader_expects(data):
    with pytest.raises((AttributeError, LookupError, TypeError, ValueError)):
        Done.of(Message(DONE, {"id": 1, **data}))
