"""The result of running code on ranks: plain data, one object for the whole gang.

`Outcome` is what learners hold (`--as out`, `run(...)`); while the ranks are there, one that can ask them for more
(`realranks.ranks.kernel.live_outcome`). How it looks is decided elsewhere (`report` for text, `html` for notebooks,
which `realranks.cells.show` registers); why it happened is `diagnosis`, filled in by the doctor.
"""

from __future__ import annotations

import enum
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from realranks.outcome.facts import Facts
from realranks.outcome.packed import NotSent, Packed, unpack
from realranks.outcome.partners import Partners
from realranks.outcome.places import Frame, Spot, is_learners
from realranks.outcome.timeline import Timeline
from realranks.outcome.trace import TraceEvent

if TYPE_CHECKING:
    from realranks.draw import Replay


class Kind(enum.StrEnum):
    """The four ways a run can end."""

    OK = "ok"
    RAISES = "raises"
    DIED = "died"
    HANG = "hang"


#: A process that is gone, and how it ended is not known here: it was the child of another process.
EXIT_UNKNOWN = 256
#: A rank that has lost its wire to the kernel leaves with this; one that does not leave, and is killed, counts as such.
EXIT_CUT_OFF = 231
#: A rank on another machine, of which nothing is known any more.
EXIT_HOST_GONE = 257


#: Ends a doubt of a run on several machines.
NOT_ARRIVED = "sent to another machine has not arrived there"


def exit_text(code: int) -> str:
    """Describe an exit code: `exit code 3`, `killed by SIGKILL`."""
    if code == EXIT_UNKNOWN:
        return "exit code unknown"
    if code == EXIT_HOST_GONE:
        return "gone with its host"
    if code == EXIT_CUT_OFF:
        return "ended by the course: it had lost its connection to the notebook"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


class Ending(enum.StrEnum):
    """The way one rank's part ended."""

    FINISHED = "finished"
    RAISED = "raised"
    FREED = "freed"  # was blocked, or raised only because its peers were gone
    DIED = "died"
    KILLED = "killed"  # by the course: it could not be freed
    ENDED = "ended"  # by its launcher, because another rank had failed


@dataclass(frozen=True)
class RankError:
    """An exception on one rank.

    Attributes:
        type: name of the exception's class.
        bases: names of all its base classes.
        message: `str(exception)` as raised.
        traceback: folded to the learner's lines.
        full_traceback: not folded.
        where: the learner's line that raised, such as `line 2 of this cell`.
        line: its number, where it is known.
    """

    type: str
    bases: tuple[str, ...]
    message: str
    traceback: str
    full_traceback: str
    where: str
    line: int | None

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class _Recorded(TypedDict):
    """The fields of every collective in torch's flight recorder."""

    group: str
    seq: int
    op: str
    sizes: list[list[int]]
    dtypes: list[str]
    done: bool
    time_ns: int


class DDPStage(enum.StrEnum):
    """The purpose for which DDP issues a collective, also shown as this word."""

    __repr__ = str.__repr__

    NONE = ""  # it is not DDP's
    CONSTRUCTION = "construction"
    BUFFERS = "buffers"  # their broadcast in a forward
    REBUILD = "rebuild"  # of the buckets, in the second forward
    GRADIENTS = "gradients"  # a bucket's all-reduce
    JOIN = "join"


class RankState(enum.StrEnum):
    """The activity of a rank that has not ended its part."""

    BLOCKED = "blocked"  # in a communication call
    ASLEEP = "asleep"  # in something else: see `Waiting.pause`
    COMPUTING = "computing"
    GPU = "gpu"  # it waits for its GPU, which computes or waits for other ranks
    STOPPED = "stopped"  # by a signal
    LOCKED = "locked"  # blocked in C code that holds the GIL
    SILENT = "silent"  # it does not answer
    UNHEARD = "unheard"  # its machine does not answer


class PauseKind(enum.StrEnum):
    """The kind of a main thread's sleep that waits for no other rank."""

    SLEEP = "sleep"  # ends by itself
    LOCK = "lock"  # a thread or process must release it
    CHILD = "child"  # a process
    GPU = "gpu"
    OTHER = "other"


class CollectiveOrigin(TypedDict, total=False):
    """The origin and purpose of a collective, if its stack was requested."""

    stage: DDPStage
    call: str
    file: str
    line: int
    function: str
    source: str
    frames: list[tuple[str, int, str]]
    thread: int


class CollectiveRecord(_Recorded, CollectiveOrigin):
    """A collective as `ranks/inside/flight_recorder.py` tells it."""


@dataclass(frozen=True)
class Collective:
    """One collective a rank issued, as torch's flight recorder has it.

    Attributes:
        group: name of the process group (`0` is the default group).
        seq: its number among that group's collectives, from 1.
        op: the operation, such as `all_reduce`.
        sizes: shapes of its inputs.
        dtypes: types of its inputs.
        done: False while it was still under way when the record was read.
        time_ns: when it was issued.
        stage: what DDP issued it for, if it did.
        call: the function of `torch.distributed` that issued it, where known.
        origin: the learner's line, where known.
        frames: the way there, innermost first, without the frames of torch and Python: the learner's, and those of
            libraries that call torch.
        thread: which of Python's threads issued it; 0 for the main thread, and for threads of C++.
    """

    group: str
    seq: int
    op: str
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    done: bool
    time_ns: int = field(compare=False, repr=False, default=0)
    stage: DDPStage = field(compare=False, default=DDPStage.NONE)
    call: str = field(compare=False, default="")
    origin: Frame | None = field(compare=False, repr=False, default=None)
    frames: tuple[Spot, ...] = field(compare=False, repr=False, default=())
    thread: int = field(compare=False, repr=False, default=0)

    @classmethod
    def from_record(cls, record: CollectiveRecord) -> Collective:
        """Build a collective from an entry of the flight recorder."""
        sizes = tuple(tuple(size) for size in record["sizes"])
        dtypes = tuple(record["dtypes"])
        origin = None
        if record.get("file"):
            origin = Frame(record["file"], record["line"], record["function"], record["source"])
        return cls(
            group=record["group"],
            seq=record["seq"],
            op=record["op"],
            sizes=sizes,
            dtypes=dtypes,
            done=record["done"],
            time_ns=record["time_ns"],
            stage=DDPStage(record.get("stage", "")),
            call=record.get("call", ""),
            origin=origin,
            frames=tuple(Spot(*frame) for frame in record.get("frames", ())),
            thread=record.get("thread", 0),
        )

    def up_to_origin(self) -> tuple[Spot, ...]:
        """Return the frames from the call outwards to the learner's line that issued it, which comes last."""
        own = next((n for n, frame in enumerate(self.frames, 1) if is_learners(frame.file)), len(self.frames))
        return self.frames[:own]

    @property
    def where(self) -> str:
        """The learner's line that issued it, such as `line 3 of this cell`; empty where unknown."""
        return self.origin.where() if self.origin is not None else ""

    def __str__(self) -> str:
        shapes = ", ".join("x".join(map(str, size)) or "scalar" for size in self.sizes)
        return f"{self.op}({shapes})" if shapes else f"{self.op}()"


#: States of a `Waiting` in which a rank may still get on.
AT_WORK = frozenset({RankState.COMPUTING, RankState.SILENT, RankState.ASLEEP})


@dataclass(frozen=True)
class Waiting:
    """A rank that waits for something that cannot come, or did not come in time.

    Attributes:
        call: the communication call the rank is in (`all_reduce`, `backward`, ...), or None while it computes.
        where: the learner's line.
        source: the text of that line.
        collective: the collective under way, when there is one.
        missing: ranks that have not joined it.
        mismatch: the other collective that meets it, by rank.
        state: what it does.
        stack: the frames of its main thread, outermost first.
        pause: the call in which it sleeps, and what kind of thing that is.
        partners: the ranks that the call needs.
        children: names of the processes it has started.
        seconds: how long it has been waiting there, where that is known (a run out of time).
    """

    rank: int
    call: str | None
    where: str
    source: str
    collective: Collective | None = None
    missing: tuple[int, ...] = ()
    mismatch: Mapping[int, Collective] = field(default_factory=dict)
    state: RankState = RankState.BLOCKED
    stack: tuple[Frame, ...] = ()
    pause: tuple[str, PauseKind] | None = None
    partners: Partners | None = field(default=None, compare=False)
    children: tuple[str, ...] = ()
    seconds: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Diagnosis:
    """Why it happened, in words.

    Attributes:
        kind: a short name such as `rank_left`; `unknown` when nothing fits.
        summary: what happened, in one sentence.
        culprits: the ranks that did something else than the others.
        evidence: lines that a reader can check.
        advice: what to do about it.
        lesson: where this is taught.
        warning: True for what is worth knowing, but may be meant.
    """

    kind: str
    summary: str
    culprits: tuple[int, ...] = ()
    evidence: tuple[str, ...] = ()
    advice: str = ""
    lesson: str = ""
    warning: bool = False


class RankVariableError(LookupError):
    """A variable or value was asked for that no rank can give; the message says which and why."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run on real ranks.

    Attributes:
        kind: `ok`, `raises`, `died` or `hang`. A rank that dies outweighs one that raises, which outweighs a hang.
        world_size: number of ranks of the gang.
        ranks: the ranks that the code ran on.
        stdout: text written to standard output, by rank.
        stderr: text written to standard error, by rank.
        shown: the value of the last expression as text, by rank.
        errors: `RankError` by rank that raised.
        exits: exit code by rank that died; a negative one is the number of a signal.
        endings: how the part of each rank ended: `finished`, `raised`, `freed`, `died`, `killed` or `ended`.
        waiting: a `Waiting` for each rank that had not finished when the run was ended.
        pictures: figures as PNG bytes, by rank.
        notes: what the course did about it, such as rebuilding the process group.
        proved: True for a proved deadlock: no rank could ever have continued.
        doubts: why a deadlock is probable and not proved, one clause each: nothing had moved on any rank for some
            seconds when the run was ended, but something that cannot be seen might still have acted.
        stalled_for: seconds without progress (no operation issued, no step made), when that was why the run was ended.
        interrupted: True when the stop button ended the run.
        timed_out: True when a time limit ended the run.
        seconds: wall time of the run.
        diagnosis: the explanation, a `Diagnosis`; None where there is nothing to explain.
        expected: whether it ended as expected; None where nothing was expected.
        what: what was run, such as a `cell` or a `script`.
        packed: the values as they came; see `values`.
        recorded: collectives that came with the run's end; see `collectives`.
        facts: what ranks said of themselves when something went wrong (`ranks/inside/self_report.py`).
        last_places: the stack of a rank that crashed.
        trace_events: the events of which `timeline` is made.
        hosts: the machine by rank, where ranks are on several.
        from_outside: True where ranks were only looked at while they ran (`scripts/external.py`): what they had
            issued before is not known.
        never_struck: faults that were meant for this run and whose moment never came, one sentence each.
    """

    kind: Kind
    world_size: int
    ranks: tuple[int, ...]
    stdout: Mapping[int, str]
    stderr: Mapping[int, str]
    shown: Mapping[int, str]
    errors: Mapping[int, RankError]
    exits: Mapping[int, int]
    endings: Mapping[int, Ending]
    waiting: Mapping[int, Waiting]
    pictures: Mapping[int, tuple[bytes, ...]]
    notes: tuple[str, ...] = ()
    proved: bool = False
    doubts: tuple[str, ...] = ()
    stalled_for: float = 0.0
    interrupted: bool = False
    timed_out: bool = False
    seconds: float = 0.0
    diagnosis: Diagnosis | None = None
    expected: bool | None = None
    what: str = "cell"
    recorded: Mapping[int, tuple[Collective, ...]] = field(default_factory=dict)
    facts: Mapping[int, Facts] = field(default_factory=dict, repr=False)
    last_places: Mapping[int, tuple[Frame, ...]] = field(default_factory=dict, repr=False)
    trace_events: Mapping[int, tuple[TraceEvent, ...]] = field(default_factory=dict)
    never_struck: tuple[str, ...] = ()
    from_outside: bool = False
    hosts: Mapping[int, str] = field(default_factory=dict)
    packed: Mapping[int, Packed] = field(default_factory=dict, repr=False)

    @cached_property
    def values(self) -> dict[int, Any]:
        """The value of the cell's last expression (or what the function returned) by rank.

        A value that cannot travel is a `NotSent` that says why. Values with tensors import torch here.
        """
        return {rank: unpack(blob, not_sent) for rank, (blob, not_sent) in self.all_packed().items()}

    def all_packed(self) -> Mapping[int, Packed]:
        """Return the packed values, fetching those that were too large to come with the run, as far as possible."""
        return self.packed

    @property
    def was_slow(self) -> bool:
        """True where a time limit ended ranks of which nothing shows that they would not have finished."""
        at_work = any(waiting.state in AT_WORK for waiting in self.waiting.values())
        return self.kind is Kind.HANG and self.timed_out and at_work and not self.proved and not self.doubts

    @property
    def raw_values(self) -> dict[int, bytes]:
        """The values as the bytes the ranks sent: pickles, which the grader reads without unpickling them."""
        return {rank: blob for rank, (blob, not_sent) in self.packed.items() if not_sent is None}

    def __getitem__(self, name: str) -> dict[int, Any]:
        """Fetch the variable `name` of the ranks' namespace as it is now, by rank.

        Raises:
            RankVariableError: no rank has it, or the gang is gone.
        """
        if not isinstance(name, str):
            raise TypeError(f"Ask an Outcome for a variable by its name, as in out['loss'], not {name!r}.")
        return {rank: unpack(*packed) for rank, packed in self.fetched(name).items() if rank in self.ranks}

    def fetched(self, name: str, through: Callable[..., object] | None = None) -> dict[int, Packed]:
        """Fetch a variable, packed, from each rank, or what the importable function `through` makes of it there.

        Raises:
            RankVariableError: no rank has it, or the gang is gone.
        """
        raise RankVariableError(f"{name!r} cannot be fetched: this run's ranks have ended.")

    @property
    def collectives(self) -> Mapping[int, tuple[Collective, ...]]:
        """The collectives each rank issued during this run, in order (torch's flight recorder)."""
        return self.recorded

    def settled(self) -> Outcome:
        """Fetch from the ranks everything that could be needed later, so that they may end."""
        return self

    @cached_property
    def timeline(self) -> Timeline | None:
        """The timeline of a traced run (`--trace`, `trace=True`), or None without a trace."""
        return Timeline.from_traces(self.trace_events) if self.trace_events else None

    def replay(self, title: str = "What each rank did, and when") -> Replay:
        """Return a player for a traced run (play, step, slow motion): what each rank does, and whom it waits for.

        Raises:
            ValueError: the run was not traced.
        """
        if self.timeline is None:
            raise ValueError(
                "Nothing to replay: this run was not traced (%%ranks --trace, or run(..., trace=True))."
            )
        groups = {record.group for records in self.collectives.values() for record in records}
        endings = {rank: self._ending_in_words(rank) for rank in self.ranks}
        return self.timeline.replay(title, one_group=len(groups) < 2, endings=endings)

    def _ending_in_words(self, rank: int) -> str:
        """Describe how a rank ended, phrased so that `at 3 ms` can follow."""
        ending = self.endings.get(rank, Ending.FINISHED)
        if ending is Ending.RAISED and rank in self.errors:
            return f"raised {self.errors[rank].type}"
        if ending is Ending.DIED and rank in self.exits:
            return f"died: {exit_text(self.exits[rank])}"
        return f"left the {self.what}" if ending is Ending.FINISHED else str(ending)

    @property
    def ok(self) -> bool:
        """True when every rank finished without an error."""
        return self.kind is Kind.OK

    def __repr__(self) -> str:
        from realranks.outcome.report import text_report

        return text_report(self)


__all__ = [
    "EXIT_UNKNOWN",
    "Collective",
    "Diagnosis",
    "Ending",
    "Kind",
    "NotSent",
    "Outcome",
    "RankError",
    "RankVariableError",
    "Waiting",
    "exit_text",
]
