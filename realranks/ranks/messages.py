"""The messages between a kernel and a rank: one frozen dataclass per kind, written and read in one place.

How a message becomes bytes is `protocol`, how a dataclass becomes JSON `codec`. A job, or a question, has a number;
the answer has the same one. What comes from a rank may come from the learner's code: reading it gives a dataclass of
the kind that was asked for, or raises `MalformedError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from realranks.outcome.facts import Facts
from realranks.outcome.outcome import Collective, RankError
from realranks.outcome.packed import NotSent
from realranks.outcome.trace import TraceEvent
from realranks.ranks.codec import MalformedError, blob_of, decode, encode
from realranks.ranks.protocol import Message
from realranks.ranks.status import RankStatus

#: A context manager of the course, as `module:function`, and its arguments.
Around = tuple[str, Mapping[str, object]]

_NUMBER = "id"


@dataclass(frozen=True)
class Body:
    """The content of a message; `kind` is its name on the wire."""

    kind: ClassVar[str]


_Body = TypeVar("_Body", bound=Body)


# -- from the kernel to a rank --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Work(Body):
    """Code to be run on the main thread; the answer is `JobReply`.

    Attributes:
        trace: record a timeline.
        around: a context manager that is entered before the learner's code.
    """

    trace: bool = False
    around: Around | None = None


@dataclass(frozen=True)
class Cell(Work):
    """A cell of a notebook; `label` and `first_line` are what the learner knows it by.

    Attributes:
        code: the source, compiled (see `outcome.syntax`). Where it is empty, the rank compiles the source.
    """

    kind: ClassVar[str] = "cell"
    source: str
    label: str = "cell"
    first_line: int = 1
    code: bytes = b""


@dataclass(frozen=True)
class Call(Work):
    """A pickled `(function, arguments, faults)`."""

    kind: ClassVar[str] = "call"
    payload: bytes = b""


@dataclass(frozen=True)
class Script(Work):
    """A script, as `torchrun` would run it."""

    kind: ClassVar[str] = "script"
    path: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fetch(Body):
    """A variable is wanted (None: the last value), or what the function `module:function` makes of it: `Fetched`."""

    kind: ClassVar[str] = "fetch"
    name: str | None
    through: str | None = None


@dataclass(frozen=True)
class Rebuild(Body):
    """Make a new process group, in a corner of the store that no earlier group has used: `Rebuilt`."""

    kind: ClassVar[str] = "rebuild"
    epoch: int


@dataclass(frozen=True)
class StatusRequest(Body):
    """A request for the rank's status. The control thread answers with `StatusReply`, even if the main thread is
    blocked.

    Attributes:
        detail: also which line issued each collective, and the rank's `Facts`.
        brief: without the collectives.
    """

    kind: ClassVar[str] = "status_request"
    detail: bool = False
    brief: bool = False


@dataclass(frozen=True)
class Free(Body):
    """Wake the main thread from its collective; with `store`, also from a wait for a key: `Freed`."""

    kind: ClassVar[str] = "free"
    store: bool = False


@dataclass(frozen=True)
class Stop(Body):
    """Close the learner's files and leave."""

    kind: ClassVar[str] = "stop"


@dataclass(frozen=True)
class Verdict(Body):
    """Releases a rank that waits for the result of the run (`attach`), or of a test.

    Attributes:
        text: why ranks hung; empty where none did, or where the report is written elsewhere.
        more: another test is watched after this one.
    """

    kind: ClassVar[str] = "verdict"
    text: str = ""
    more: bool = False


# -- from a rank to the kernel --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello(Body):
    """A rank that another launcher has started opens a wire: `questions`, or `crashes` (`attach`).

    Attributes:
        started_ns: when it began to be watched.
    """

    kind: ClassVar[str] = "hello"
    wire: str
    rank: int
    world_size: int
    pid: int
    started_ns: int


@dataclass(frozen=True)
class Attached(Body):
    """A process that a script has started opens a wire to the doctor: `questions`, or `crashes`.

    Attributes:
        order: which of the processes started by the same one it is.
        index: its number to `torch.multiprocessing.spawn`.
        forked: from a process of the course's own.
        started_ns: when it began to be watched.
    """

    kind: ClassVar[str] = "attached"
    wire: str
    pid: int
    order: int
    index: int | None
    forked: bool
    started_ns: int


@dataclass(frozen=True)
class ProcessStarted(Body):
    """A script has started a process that may become a rank."""

    kind: ClassVar[str] = "process_started"
    pid: int


@dataclass(frozen=True)
class ProcessEnded(Body):
    """A process that a script has started has ended; a negative code is the number of a signal."""

    kind: ClassVar[str] = "process_ended"
    pid: int
    code: int


@dataclass(frozen=True)
class Joined(Body):
    """A process that a script has started is in `init_process_group`, as this rank."""

    kind: ClassVar[str] = "joined"
    rank: int
    world_size: int


@dataclass(frozen=True)
class Ready(Body):
    """The rank has started, with its process group; or says what was in the way."""

    kind: ClassVar[str] = "ready"
    rank: int
    pid: int
    problem: RankError | None = None


@dataclass(frozen=True)
class Picture(Body):
    """A figure that the learner's code shows."""

    kind: ClassVar[str] = "picture"
    png: bytes = b""


@dataclass(frozen=True)
class JobReply(Body):
    """The result of a job on one rank, in its own words: the last message about the job.

    Attributes:
        error: the exception that ended it.
        shown: the value as text.
        value: the pickled value; empty where it stayed on the rank, and then `not_sent` says why.
        has_value: False where it is None.
        facts: what the rank says of itself (`inside/self_report.py`), if it raised or was watched.
        records: the collectives it issued, if it was watched (`inside/flight_recorder.py`).
        trace: the events of its timeline, if it was traced.
        never_struck: faults meant for this job whose moment never came, one sentence each.
        sequence: by process group, the number of the last collective issued on it.
        started_ns, ended_ns: when the learner's code began and ended; 0 where it was interrupted outside of it.
        gpu_busy: when the code had ended, the rank's GPU did not finish what it was given within a moment.
        on_gpu: the collectives it issued through NCCL, without the lines; empty where its GPU is busy.
        last: the rank takes part in no further job (a session of tests is over).
    """

    kind: ClassVar[str] = "job_reply"
    error: RankError | None = None
    shown: str | None = None
    value: bytes = b""
    not_sent: NotSent | None = None
    has_value: bool = False
    facts: Facts | None = None
    records: tuple[Collective, ...] | None = None
    trace: tuple[TraceEvent, ...] = ()
    never_struck: tuple[str, ...] = ()
    sequence: Mapping[str, int] = field(default_factory=dict)
    started_ns: int = 0
    ended_ns: int = 0
    gpu_busy: bool = False
    on_gpu: tuple[Collective, ...] = ()
    last: bool = False


@dataclass(frozen=True)
class Fetched(Body):
    """The variable, pickled; or that there is none, or why it is not sent."""

    kind: ClassVar[str] = "fetched"
    found: bool
    not_sent: NotSent | None = None
    value: bytes = b""


@dataclass(frozen=True)
class Rebuilt(Body):
    """There is a new process group, to which so many DDP wrappers were moved; or what was in the way."""

    kind: ClassVar[str] = "rebuilt"
    wrappers: int
    problem: RankError | None = None


@dataclass(frozen=True)
class StatusReply(Body):
    """The answer to `StatusRequest`."""

    kind: ClassVar[str] = "status_reply"
    status: RankStatus


@dataclass(frozen=True)
class Freed(Body):
    """So many connections were shut down."""

    kind: ClassVar[str] = "freed"
    connections: int


@dataclass(frozen=True)
class Cannot(Body):
    """The control thread cannot answer; `why` is the type of the exception."""

    kind: ClassVar[str] = "cannot"
    why: str


@dataclass(frozen=True)
class TerminateReport(Body):
    """A rank that C++ code is about to end says where it is (`inside/on_terminate.py`)."""

    kind: ClassVar[str] = "terminate_report"
    status: RankStatus


# -- written and read -----------------------------------------------------------------------------------------------


def encode_message(body: Body, number: int = 0) -> Message:
    """Encode a message; `number` identifies the job or question it belongs to."""
    return Message(body.kind, {_NUMBER: number, **encode(body)}, blob_of(body))


def number_of(message: Message) -> int:
    """Return the number of the job or question to which a message belongs, or 0."""
    number = message.data.get(_NUMBER)
    return number if isinstance(number, int) else 0


def decode_message(kind: type[_Body], message: Message) -> _Body:
    """Decode the message as one of this kind.

    Raises:
        MalformedError: it is none.
    """
    if message.kind != kind.kind:
        raise MalformedError(f"{message.kind!r:.40} is no {kind.kind}")
    return decode(
        kind, {name: value for name, value in message.data.items() if name != _NUMBER}, message.blob
    )


#: What the main thread of a rank can do.
RankJob = Cell | Call | Script | Fetch | Rebuild
_JOBS: tuple[type[RankJob], ...] = (Cell, Call, Script, Fetch, Rebuild)


def decode_job(message: Message) -> RankJob:
    """Decode the job that the kernel sends to a rank's main thread.

    Raises:
        MalformedError: nothing that it can do.
    """
    for kind in _JOBS:
        if message.kind == kind.kind:
            return decode_message(kind, message)
    raise MalformedError(f"{message.kind!r:.40} is no job")
