"""What kernel and rank say to each other: what one says is what the other hears, and nonsense is no message."""

import json

import pytest

from realranks.outcome.facts import Facts, InitArguments, StoreAddress, ThreadPlace
from realranks.outcome.packed import NotSent
from realranks.outcome.partners import Partners
from realranks.outcome.places import Frame
from realranks.outcome.probe_notes import (
    Calls,
    Counts,
    Digest,
    EpochNotes,
    Failure,
    GradientCheck,
    LoaderNotes,
    ModelCall,
    ModelNotes,
    OutsideCheck,
    OutsideParameter,
    ProbeNotes,
    RootedCall,
    Span,
    WaitingShare,
    WeightCheck,
)
from realranks.outcome.wrapped import NamedShape, WrappedModel
from realranks.ranks import messages, starting
from realranks.ranks.codec import MalformedError
from realranks.ranks.messages import (
    JobReply,
    Rebuild,
    Script,
    decode_job,
    decode_message,
    encode_message,
    number_of,
)
from realranks.ranks.protocol import Decoder, Message
from realranks.ranks.status import RankStatus
from tests.support.outcomes import collective, error

CRC = Digest(7, (1.0, None))
PROBE = ProbeNotes(
    counts=Counts(1, 2, 3, 4),
    bare_backwards=1,
    no_sync_steps=2,
    failures=[Failure("forward", "ValueError", "train.py, line 3", "no")],
    unseen={"weights": "TypeError"},
    models=[ModelNotes(0, (0, 1), "Net", statistics=("norm.running_mean",), events={"bypassed": "line 3"})],
    calls=Calls(5, [ModelCall(0, "line 4")]),
    loaders=[LoaderNotes(0, "RandomSampler", True, 9, True, (0, 2), [EpochNotes([1, 2], 1, 5)])],
    weights=[WeightCheck(0, -1, {"w": CRC}, {"b": Digest(None, ())}, True, ("late",))],
    gradients=[GradientCheck(3, {"0:w": CRC}, {}, ({"lr": 0.1, "nesterov": True},))],
    outside=[OutsideCheck(0, 1, False, (OutsideParameter("head", (1, 4), CRC, CRC, None),))],
    waiting=WaitingShare(1.5, 0.25, [Span(1.1, 3, 0.5, 0.25, 0.125, 0.0, 4096)]),
    groups={"1": (0, 1)},
    messages=2,
    rooted={"0": [RootedCall(0, "broadcast", 1, "line 9")]},
    strange=["all_reduce() at line 3"],
)
FACTS = Facts(
    models=(WrappedModel("Net", (NamedShape("w", (2, 3)),), 1, ("w",), ("adapter",), no_sync=True),),
    groups={"0": (0, 1)},
    groups_made=1,
    memory_bytes=5,
    threads=(ThreadPlace("loader", "train.py, line 4"),),
    agent_store=True,
    master=StoreAddress("127.0.0.1", "29500"),
    init=InitArguments(0, 2, "gloo", "env://", 30.0),
    probe=PROBE,
)
STATUS = RankStatus(
    rank=-1,
    stack=(Frame("train.py", 3, "main", "x = 1"),),
    waiting_in="all_reduce",
    cpu_seconds=1.5,
    sequence={"0": 3},
    members={"0": (0, 1)},
    records=(collective(seq=3), collective(seq=4, done=True)),
    asleep=False,
    ends_by_itself=True,
    facts=FACTS,
    brief=True,
    loops={"7": (3, True)},
    moved=11,
    in_flight=12,
    threads=(("loader", "lock"),),
    children={77: ("sh", 0.5)},
    pause=("lock.acquire()", "lock"),
    partners=Partners("broadcast", "0", (0, 1), root=1),
    progress=4,
    seen_through=False,
)
REPLY = JobReply(
    error=error("ValueError", "no"),
    shown="3",
    value=b"\x80",
    not_sent=NotSent("a lock", "cannot be pickled"),
    has_value=True,
    facts=FACTS,
    records=(collective(seq=1),),
    trace=(
        {"name": "forward", "start_ns": 1, "duration_ns": 2, "thread": 3},
        {
            "name": "gloo:all_reduce",
            "start_ns": 1,
            "duration_ns": 2,
            "thread": 3,
            "dtypes": ["f"],
            "issued_ns": 1,
        },
    ),
    never_struck=("The fault on rank 1 never struck.",),
    sequence={"0": 7},
    started_ns=5,
    ended_ns=9,
)
AROUND = ("realranks.watch.probe:watching", {"every": 50, "waiting": True})
EVERYTHING = [
    messages.Cell("x = 1", "In [1]", 2, trace=True, around=AROUND),
    messages.Call(b"\x80"),
    messages.Script("/tmp/train.py", ("--epochs", "3")),
    messages.Fetch(None, "module:function"),
    messages.Rebuild(2),
    messages.StatusRequest(detail=True),
    messages.Free(store=True),
    messages.Stop(),
    messages.Verdict("Rank 0 waits.", more=True),
    messages.Hello("questions", 1, 2, 77, 5),
    messages.Attached("crashes", 77, 0, None, True, 5),
    messages.ProcessStarted(77),
    messages.ProcessEnded(77, -9),
    messages.Joined(1, 2),
    messages.Ready(1, 77, error()),
    messages.Picture(b"png"),
    JobReply(),
    REPLY,
    JobReply(records=(), has_value=True),
    messages.Fetched(True, None, b"\x80"),
    messages.Rebuilt(3, error()),
    messages.StatusReply(STATUS),
    messages.Freed(4),
    messages.Cannot("TypeError"),
    messages.TerminateReport(STATUS),
    starting.Start(
        1,
        "/tmp",
        ("/course", ""),
        4,
        {"RANK": "1"},
        rank=starting.RankConfig(1, True, "gloo", 29500, 0, True, {"RLIMIT_AS": 1 << 30}, 9),
    ),
    starting.Start(1, "/tmp", (), 4, store=starting.StoreConfig(29500)),
    starting.Start(1, "/tmp", (), 3, gpus=starting.GpusConfig(30.0)),
    starting.Kill(77, 1.0),
    starting.ServerReady(77, "forkserver", "2.13.0"),
    starting.Started(1, 77),
    starting.Failed(1, "no memory"),
    starting.Exited(77, -9),
]


def travelled(body, number=0):
    """What comes out at the other end of the wire."""
    (message,) = Decoder().feed(encode_message(body, number).encode())
    return message


@pytest.mark.parametrize("body", EVERYTHING, ids=lambda body: type(body).__name__)
def test_what_is_said_is_heard(body):
    message = travelled(body, 3)
    assert decode_message(type(body), message) == body
    assert number_of(message) == 3


def test_every_kind_of_message_is_among_them():
    kinds = {
        kind
        for room in (messages, starting)
        for kind in vars(room).values()
        if isinstance(kind, type) and issubclass(kind, messages.Body) and "kind" in vars(kind)
    }
    assert {type(body) for body in EVERYTHING} == kinds


def test_what_is_as_usual_is_not_said():
    assert encode_message(JobReply(), 3).data == {"id": 3}


NONSENSE = [
    {"error": [1]},
    {"error": {"type": "X"}},
    {"records": 7},
    {"records": [{"group": "0"}]},
    {"nothing": 1},
    {"shown": 3},
    {"has_value": "yes"},
    {"sequence": {"0": "7"}},
    {"sequence": [1]},
    {"started_ns": True},
    {"not_sent": {"text": 1, "reason": ""}},
    {"facts": {"groups": {"0": ["0"]}}},
    {"facts": {"master": ["127.0.0.1"]}},
    {"facts": {"probe": {}}},
    {"facts": {"probe": {"counts": {"forwards": 1.5}}}},
    {"trace": [{"name": "forward"}]},
    {"trace": [{"name": "f", "start_ns": 1, "duration_ns": 2, "thread": 3, "more": 4}]},
    {"value": "forged"},
]


@pytest.mark.parametrize("data", NONSENSE, ids=json.dumps)
def test_nonsense_is_no_message(data):
    with pytest.raises(MalformedError):
        decode_message(JobReply, Message(JobReply.kind, {"id": 1, **data}))


def test_a_message_of_another_kind_is_not_taken_for_it():
    with pytest.raises(MalformedError):
        decode_message(JobReply, encode_message(Rebuild(1)))


def test_nesting_that_has_no_end_is_no_message():
    deep: object = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(MalformedError):
        decode_message(messages.Cell, Message("cell", {"source": "", "around": deep}))


@pytest.mark.parametrize("number", ["3", 3.5, None, [3]])
def test_a_number_that_is_none_belongs_to_no_job(number):
    assert number_of(Message("job_reply", {"id": number})) == 0


def test_a_rank_does_what_is_a_job_and_nothing_else():
    job = Script("/tmp/train.py", ("--epochs", "3"))
    assert decode_job(travelled(job)) == job
    for body in (messages.StatusRequest(), messages.Stop(), JobReply()):
        with pytest.raises(MalformedError):
            decode_job(travelled(body))


def test_what_stands_for_json_that_nobody_looks_into_comes_through_as_it_is():
    arguments = {"every": [1, {"deep": None}], "waiting": False}
    job = messages.Call(b"", around=("module:function", arguments))
    assert decode_job(travelled(job)).around == ("module:function", arguments)
