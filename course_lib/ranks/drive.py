"""Run one job on a gang, from sending it to the `Outcome`: stream output, watch for deadlocks, stop what must stop.

The order of ending things is always the same: ask (SIGINT), free (shut gloo's connections), ask again, kill. What was
killed costs the gang; everything gentler keeps the ranks' Python state.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from course_lib.ranks import deadlock
from course_lib.ranks.answering import STACK_SIGNAL
from course_lib.ranks.cell import Frame
from course_lib.ranks.interrupts import StopRequests
from course_lib.ranks.outcome import Collective, Ending, Kind, Outcome, RankError, Waiting
from course_lib.ranks.protocol import Message

if TYPE_CHECKING:
    from course_lib.ranks.gang import Gang
    from course_lib.ranks.link import RankLink

#: Pace of looking for a deadlock: first look, then while somebody computes, then between the two looks of a proof.
_FIRST_LOOK, _IDLE_LOOK, _PROOF_LOOK = 0.2, 0.4, 0.12
_SHOW_EVERY = 0.1
_GRACE = 1.0
_PEER_LOST = (
    "connection closed by peer",
    "connection reset",
    "broken pipe",
    "connectfullmesh",
    "socket closed",
)
#: After one of these a gloo group refuses everything that follows.
_GROUP_BROKEN = (*_PEER_LOST, "timed out waiting", "application timeout caused", "pair closure")


def exit_text(code: int) -> str:
    """An exit code in words: `exit code 3`, `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


@dataclass(frozen=True)
class Job:
    """What to run and how.

    Attributes:
        kind, data, blob: the message for the ranks. only: the ranks to run on (None: all).
        timeout: seconds after which ranks that have not finished are stopped.
        repair: whether a broken process group is rebuilt afterwards; not worth it for a gang that is stopped next.
        on_progress: called while the job runs, at most ten times a second; what it raises ends the job.
    """

    kind: str
    data: dict[str, Any]
    blob: bytes = b""
    only: tuple[int, ...] | None = None
    timeout: float = 300.0
    trace: bool = False
    repair: bool = True
    on_progress: Callable[[Progress], None] | None = None


@dataclass(frozen=True)
class Progress:
    """A moment of a running job: what each rank has written so far, and which ranks are done."""

    seconds: float
    stdout: dict[int, str]
    stderr: dict[int, str]
    done: frozenset[int]
    running: frozenset[int]


@dataclass
class _Run:
    """What is known of a job under way."""

    job: Job
    number: int
    links: list[RankLink]
    started: float = field(default_factory=time.monotonic)
    started_ns: int = field(default_factory=time.time_ns)
    done: dict[int, Message] = field(default_factory=dict)
    waiting: dict[int, Waiting] = field(default_factory=dict)
    stopped_at: dict[int, str] = field(default_factory=dict)  # rank -> why the course ended its part
    killed: set[int] = field(default_factory=set)
    looks: dict[int, deadlock.Look] = field(default_factory=dict)
    freed: bool = False
    proved: bool = False
    timed_out: bool = False
    interrupted: bool = False
    died_first: dict[int, int] = field(default_factory=dict)
    wire_closed: dict[int, float] = field(default_factory=dict)

    def running(self) -> list[RankLink]:
        return [link for link in self.links if link.rank not in self.done and link.alive]

    def seconds(self) -> float:
        return time.monotonic() - self.started


def run(gang: Gang, job: Job, stop: StopRequests) -> Outcome:
    """Run the job to its end, whatever that is, and leave the gang usable if that is possible."""
    links = [link for link in gang.links if job.only is None or link.rank in job.only]
    gang.job += 1
    this = _Run(job, gang.job, links)
    for link in gang.links:
        link.stdout.clear()
        link.stderr.clear()
        link.stack_dump.clear()
        link.pictures.clear()
        link.inbox.clear()
    message = Message(job.kind, {**job.data, "id": this.number, "trace": job.trace}, job.blob)
    for link in links:
        link.channel.send(message)
    watch = _Watch(gang, this)
    shown_at = 0.0
    while this.running():
        now = this.seconds()
        wait = min(job.timeout - now, watch.next_look - now)
        if job.on_progress is not None:
            wait = min(wait, _SHOW_EVERY)
        gang.pump(wait, stop)
        _collect(this)
        _give_up_on_broken_wires(this)
        if stop.pressed:
            stop.heed()
            this.interrupted = True
            _see_where(gang, this)
            _collect(this)
            _end(gang, this, "stopped")
            break
        if watch.step():
            this.proved = True
            _end(gang, this, "deadlock", free_first=True)
            break
        if this.seconds() >= job.timeout and this.running():
            _see_where(gang, this)
            _collect(this)
            if this.running():
                this.timed_out = True
                _end(gang, this, "timeout")
            break
        if job.on_progress is not None and this.seconds() - shown_at >= _SHOW_EVERY and this.running():
            shown_at = this.seconds()
            try:
                job.on_progress(_progress(this))
            except BaseException:
                # Whoever watches has failed: the ranks must not be left in the middle of a job nobody waits for.
                for link in this.running():
                    link.kill()
                raise
    _collect(this)
    return _outcome(gang, this)


def _progress(this: _Run) -> Progress:
    running = frozenset(link.rank for link in this.running())
    return Progress(
        this.seconds(),
        {link.rank: link.stdout.text() for link in this.links},
        {link.rank: link.stderr.text() for link in this.links},
        frozenset(this.done),
        running,
    )


def _collect(this: _Run) -> None:
    for link in this.links:
        if link.rank not in this.done:
            message = link.take("done", this.number)
            if message is not None:
                this.done[link.rank] = message
                link.stdout.drain()
                link.stderr.drain()
            elif not link.alive and link.rank not in this.died_first and link.rank not in this.killed:
                # The reply may still be on the wire: a rank can say `done` and die a moment later.
                link.read()
                message = link.take("done", this.number)
                if message is not None:
                    this.done[link.rank] = message
                link.stdout.drain()
                link.stderr.drain()
                this.died_first[link.rank] = link.exit_code or 0


def _give_up_on_broken_wires(this: _Run) -> None:
    """A rank that lives but whose wire is closed (its code closed or wrote to every descriptor) can never answer."""
    for link in this.running():
        if link.channel.closed:
            since = this.wire_closed.setdefault(link.rank, this.seconds())
            if this.seconds() - since > _GRACE:
                link.signal(signal.SIGKILL)


class _Watch:
    """Looks at the ranks now and then, and says when a deadlock is proved."""

    def __init__(self, gang: Gang, this: _Run) -> None:
        self.gang = gang
        self.this = this
        self.next_look = _FIRST_LOOK
        self.before: dict[int, deadlock.Look] = {}
        self.asked: int | None = None
        self.replies: dict[int, deadlock.Look] = {}
        self.silent_since: float | None = None

    def step(self) -> bool:
        """Ask, or read the answers; True when the proof is complete (it is then in the run's `waiting`)."""
        if self.asked is None:
            if self.this.seconds() >= self.next_look:
                self._ask()
            return False
        for link in self.gang.links:
            message = link.take("seen", self.asked)
            if message is not None:
                self.replies[link.rank] = deadlock.Look.from_message(link.rank, message.data)
        living = [link for link in self.gang.links if link.alive]
        if len(self.replies) < len(living) and self.this.seconds() < self.next_look:
            return False
        return self._judge()

    def _ask(self) -> None:
        self.gang.job += 1
        self.asked = self.gang.job
        self.replies = {}
        self.next_look = self.this.seconds() + _IDLE_LOOK
        for link in self.gang.links:
            if link.alive:
                link.channel.send(Message("look", {"id": self.asked}))

    def _judge(self) -> bool:
        self.asked = None
        now, before = self.replies, self.before
        self.before = now
        running = frozenset(link.rank for link in self.this.running())
        silent = [link for link in self.this.running() if link.rank not in now]
        stopped = frozenset(link.rank for link in silent if link.is_stopped())
        self.this.looks = now
        self.next_look = self.this.seconds() + _IDLE_LOOK
        if len(stopped) == len(silent):
            awake = [now[rank] for rank in running - stopped]
            if all(look.waiting_in is not None for look in awake):
                self.next_look = self.this.seconds() + _PROOF_LOOK
            proof = deadlock.judge(before, now, running, stopped)
            if proof is None and stopped == running and running:
                proof = {rank: Waiting(rank, None, "", "", state="stopped") for rank in sorted(stopped)}
            # A rank may have left the code since it was looked at: then this is no proof of anything.
            if proof is not None and frozenset(link.rank for link in self.this.running()) == running:
                self.this.waiting = proof
                return True
        return False


def _see_where(gang: Gang, this: _Run) -> None:
    """Before ending ranks that are late: where is each of them?"""
    looks = gang.look(0.3)
    for link in this.running():
        if link.rank in looks:
            look = looks[link.rank]
            before = this.looks.get(link.rank)
            still = before is None or look.same_place(before)
            state = "blocked" if look.waiting_in is not None and still else "computing"
            this.waiting[link.rank] = deadlock.describe(look, looks, state)
        else:
            state = "stopped" if link.is_stopped() else "silent"
            stack = () if state == "stopped" else _stack_from_signal(gang, link)
            where, source = (stack[-1].where(), stack[-1].source) if stack else ("", "")
            this.waiting[link.rank] = Waiting(link.rank, None, where, source, state=state, stack=stack)


def _stack_from_signal(gang: Gang, link: RankLink) -> tuple[Frame, ...]:
    """The learner's frames of a thread that holds the GIL, as faulthandler prints them (innermost first)."""
    import linecache
    import re

    link.signal(STACK_SIGNAL)
    deadline = time.monotonic() + 0.5
    # faulthandler writes frame by frame; the outermost one is always <module>.
    while "in _run_module_as_main" not in link.stack_dump.text() and time.monotonic() < deadline:
        gang.pump(deadline - time.monotonic())
    frames = []
    for file, line, function in re.findall(r'File "(.*?)", line (\d+) in (\S+)', link.stack_dump.text()):
        from course_lib.ranks.cell import is_learners

        if is_learners(file):
            frames.append(Frame(file, int(line), function, linecache.getline(file, int(line)).strip()))
    return tuple(reversed(frames))


def _end(gang: Gang, this: _Run, why: str, free_first: bool = False) -> None:
    """Make every rank that still runs leave the learner's code."""
    for link in this.running():
        this.stopped_at[link.rank] = why
    continued = [link for link in this.running() if link.is_stopped()]
    for link in continued:
        link.signal(signal.SIGCONT)
    # A collective that goes on must not be cut while it sends: gloo can miss the cut and wait for its own timeout.
    if continued and _wait(gang, this, _GRACE / 2):
        return
    if not free_first:
        for link in this.running():
            link.interrupt()
        if _wait(gang, this, 0.1):
            return
    # Freeing one rank wakes its peers too; all of them are asked, so that none is left with half a connection.
    this.freed = True
    for cut_store in (False, True):
        for link in gang.links:
            if link.alive:
                link.channel.send(Message("free", {"id": 0, "store": cut_store}))
        if _wait(gang, this, _GRACE / 2):
            return
    for _ in range(3):
        for link in this.running():
            link.interrupt()
        if _wait(gang, this, _GRACE / 2):
            return
    for link in this.running():
        this.killed.add(link.rank)
        link.kill()
    _wait(gang, this, 5.0)


def _wait(gang: Gang, this: _Run, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while this.running() and time.monotonic() < deadline:
        gang.pump(deadline - time.monotonic())
        _collect(this)
    return not this.running()


def _outcome(gang: Gang, this: _Run) -> Outcome:
    errors: dict[int, RankError] = {}
    endings: dict[int, Ending] = {}
    exits: dict[int, int] = {}
    for link in this.links:
        rank = link.rank
        message = this.done.get(rank)
        if rank in this.killed:
            endings[rank] = Ending.KILLED
        elif message is None:
            endings[rank] = Ending.DIED
            exits[rank] = this.died_first.get(rank, link.exit_code or 0)
        elif message.data["error"] is not None:
            errors[rank] = RankError.from_report(message.data["error"])
            endings[rank] = Ending.RAISED
        else:
            endings[rank] = Ending.FINISHED
    # Ranks outside the job can die as well (a fault of an earlier cell, a kill from outside).
    for link in gang.links:
        if not link.alive and link.rank not in endings and not link.killed_by_course:
            exits[link.rank] = link.exit_code or 0
    for rank, why in this.stopped_at.items():
        raised = endings[rank] is Ending.RAISED and why != "stopped"
        if raised or (endings[rank] is Ending.FINISHED and why == "deadlock"):
            endings[rank] = Ending.FREED
    if exits:
        for rank, error in errors.items():
            if any(sign in error.message.lower() for sign in _PEER_LOST):
                endings[rank] = Ending.FREED
    kind = _kind(this, endings, exits)
    recorded = _recorded(this, kind)
    notes = _put_right(gang, this)
    fetchable = not this.killed and not exits
    started, ended = this.started_ns, time.time_ns()
    waiting = {rank: seen for rank, seen in this.waiting.items() if rank in this.stopped_at}
    return Outcome(
        kind=kind,
        world_size=gang.world_size,
        ranks=tuple(link.rank for link in this.links),
        stdout={link.rank: link.stdout.text() for link in this.links},
        stderr={link.rank: link.stderr.text() for link in this.links},
        shown={
            rank: m.data["shown"] for rank, m in sorted(this.done.items()) if m.data.get("shown") is not None
        },
        errors=dict(sorted(errors.items())),
        exits=dict(sorted(exits.items())),
        endings=endings,
        waiting=dict(sorted(waiting.items())),
        pictures={link.rank: tuple(link.pictures) for link in this.links if link.pictures},
        notes=tuple(notes),
        proved=this.proved,
        interrupted=this.interrupted,
        timed_out=this.timed_out,
        seconds=this.seconds(),
        recorded=recorded,
        trace_events={
            rank: tuple(m.data["trace"]) for rank, m in sorted(this.done.items()) if m.data.get("trace")
        },
        _blobs={
            rank: (m.blob, m.data.get("not_sent"))
            for rank, m in sorted(this.done.items())
            if m.data.get("has_value")
        },
        _fetch=gang.fetch if fetchable else None,
        _read_collectives=(lambda: gang.collectives_between(started, ended)) if fetchable else None,
    )


def _kind(this: _Run, endings: dict[int, Ending], exits: dict[int, int]) -> Kind:
    if exits:
        return Kind.DIED
    if Ending.RAISED in endings.values():
        return Kind.RAISES
    if this.proved or this.timed_out:
        return Kind.HANG
    if this.interrupted and this.killed:
        return Kind.RAISES
    return Kind.OK


def _recorded(this: _Run, kind: Kind) -> dict[int, tuple[Collective, ...]]:
    """Keep the collectives of a run that went wrong: a rebuilt group forgets them."""
    if kind is Kind.OK:
        return {}
    return {
        rank: tuple(record for record in look.records if record.time_ns >= this.started_ns)
        for rank, look in sorted(this.looks.items())
    }


def _put_right(gang: Gang, this: _Run) -> list[str]:
    """After the job: is the process group still whole? If not, give the ranks a new one, and say so."""
    if not all(link.alive for link in gang.links):
        from course_lib.ranks.gang import State

        gang.state = State.BROKEN
        return []
    standing = {rank: m.data.get("sequence", {}) for rank, m in this.done.items()}
    groups = {name for numbers in standing.values() for name in numbers}
    unequal = any(
        len({numbers[name] for numbers in standing.values() if name in numbers}) > 1 for name in groups
    )
    messages = [m.data["error"]["message"].lower() for m in this.done.values() if m.data["error"] is not None]
    broken = any(sign in message for message in messages for sign in _GROUP_BROKEN)
    if not this.job.repair or not (this.freed or broken or (messages and unequal)):
        return []
    if not gang.init:
        return ["The ranks are free again; their process groups are yours to rebuild."]
    moved = gang.rebuild_group()
    if moved is None:
        return ["The process group could not be rebuilt: the gang has to be restarted."]
    note = (
        "The process group has been rebuilt; variables are kept. Tensors that were in a collective may hold partial "
        "sums: set them again."
    )
    if moved:
        note += f" {moved} DDP model(s) moved to the new group: check that their weights are still equal."
    return [note]
