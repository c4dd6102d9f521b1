"""One job: what is asked of the ranks, what is known of it while it runs, and the `Outcome` that is made of that.

`follow_job` watches it to its end, `stop_ranks` ends it. Who holds the ranks does not matter here.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from realranks.outcome.facts import Facts
from realranks.outcome.outcome import (
    EXIT_CUT_OFF,
    Collective,
    Ending,
    Kind,
    Outcome,
    PauseKind,
    RankError,
    RankState,
    Waiting,
)
from realranks.outcome.places import Frame, is_learners
from realranks.outcome.progress import Progress
from realranks.ranks.kernel import deadlock
from realranks.ranks.kernel.deadlock import Standstill
from realranks.ranks.kernel.gil_blocked import wants_to_run
from realranks.ranks.kernel.links import Link, Wires
from realranks.ranks.messages import Around, Call, Cell, JobReply, Script, TerminateReport
from realranks.ranks.process import STACK_SIGNAL
from realranks.ranks.status import RankStatus

#: When nothing has moved on any rank for as long as this, in seconds, that is worth saying, though it proves nothing.
PROBABLE_SECONDS = 5.0
#: One that is proved to be stuck has just answered: only the question before can keep it from hearing. Reading the
#: first stacks takes a second of a core, and much longer on a machine that has none to spare. Whoever is asked what it
#: does has as long.
ANSWER_SECONDS_IF_PROVED = 20.0
#: Of a rank that is asked, and has not answered, no thread has wanted a core so many times in a row: none will answer.
_ASLEEP = 4
#: The processor seconds after which a rank must have heard a request.
_HEARD_SECONDS = 2.0
#: What torch says on a rank whose peers are gone.
PEER_LOST = (
    "connection closed by peer",
    "connection reset",
    "broken pipe",
    "connectfullmesh",
    "socket closed",
    # NCCL: what ncclRemoteError means, in torch's words.
    "remote process exited",
)


class Options(TypedDict, total=False):
    """The options of `run_cell` and the like: see `Job`."""

    only: tuple[int, ...] | None
    timeout: float
    trace: bool
    repair: bool
    around: Around | None
    on_progress: Callable[[Progress], None] | None
    patience: float
    on_stall: Callable[[Outcome], None] | None


@dataclass(frozen=True)
class Job:
    """A job with its options.

    Attributes:
        work: what the ranks are to do.
        only: the ranks to run on (None: all).
        timeout: seconds after which ranks that have not finished are stopped.
        trace: record a timeline on every rank.
        repair: whether a broken process group is rebuilt afterwards; not worth it for a gang that is stopped next.
        around: a context manager that the ranks enter before the learner's code: `module:function` and its arguments.
        patience: seconds without progress on any rank (no operation issued, no step made) after which `on_stall` is
            called with what the run would come to then; without `on_stall` the run is ended.
        on_progress: called while the job runs, at most ten times a second; what it raises ends the job.
    """

    work: Cell | Call | Script
    only: tuple[int, ...] | None = None
    timeout: float = 300.0
    trace: bool = False
    repair: bool = True
    around: Around | None = None
    on_progress: Callable[[Progress], None] | None = None
    patience: float = math.inf
    on_stall: Callable[[Outcome], None] | None = None


def what_was_run(job: Job) -> str:
    """Return `cell`, `function` or `script`."""
    return "function" if isinstance(job.work, Call) else job.work.kind


@dataclass(frozen=True)
class Still:
    """Nothing moves on any rank, since so many seconds of the job."""

    since: float
    found: Standstill


@dataclass
class Run:
    """The state of a job that is running."""

    job: Job
    number: int
    links: list[Link]
    started: float = field(default_factory=time.monotonic)
    started_ns: int = field(default_factory=time.time_ns)
    done: dict[int, JobReply] = field(default_factory=dict)
    waiting: dict[int, Waiting] = field(default_factory=dict)
    stopped_at: dict[int, str] = field(default_factory=dict)  # rank -> why the course ended its part
    killed: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)  # by their launcher
    statuses: dict[int, RankStatus] = field(default_factory=dict)
    details: dict[int, RankStatus] = field(
        default_factory=dict
    )  # the last status, with lines, stages and facts
    still: Still | None = None
    doubts: tuple[str, ...] = ()  # of a standstill that has lasted when the run was ended
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)  # what ranks have issued and counted
    progressed: float = 0.0  # when those last changed
    stalled_for: float = 0.0  # how long they had not, when the run was ended for it
    locked: set[int] = field(default_factory=set)  # blocked in C code that holds the GIL
    freed: bool = False
    proved: bool = False
    timed_out: bool = False
    interrupted: bool = False
    died_first: dict[int, int] = field(default_factory=dict)
    cut_off: set[int] = field(default_factory=set)  # ended because their wire was closed
    wire_closed: dict[int, float] = field(default_factory=dict)
    gone_before: frozenset[int] = frozenset()  # with their machine, before the job began

    def running(self) -> list[Link]:
        """List the ranks that are alive and have not finished."""
        return [link for link in self.links if link.rank not in self.done and link.alive]

    def well_and_even(self) -> bool:
        """Check that all ranks answered without an error and issued the same number of operations on each group."""
        sequences = [done.sequence for done in self.done.values() if done.error is None]
        return len(sequences) == len(self.links) and all(each == sequences[0] for each in sequences)

    def lasting(self) -> Standstill | None:
        """Return a standstill that has lasted long enough to report, or None."""
        if self.still is None or self.seconds() - self.still.since < PROBABLE_SECONDS:
            return None
        return self.still.found

    def seconds(self) -> float:
        """Return how long the job has been running."""
        return time.monotonic() - self.started


def collect(run: Run) -> None:
    """Take in the answers that have come, and notice who has died without one."""
    for link in run.links:
        if link.rank not in run.done:
            done = link.take(JobReply, run.number)
            if done is not None:
                run.done[link.rank] = done
                link.stdout.drain()
                link.stderr.drain()
            elif not link.alive and link.rank not in {*run.died_first, *run.killed, *run.ended}:
                # The reply may still be on the wire: a rank can send it and die a moment later.
                link.read()
                done = link.take(JobReply, run.number)
                if done is not None:
                    run.done[link.rank] = done
                for written in (link.stdout, link.stderr, link.stack_dump):
                    written.drain()
                cut = link.rank in run.cut_off
                run.died_first[link.rank] = EXIT_CUT_OFF if cut else link.exit_code or 0


def progress_of(run: Run, still: Outcome | None = None, silence: str = "") -> Progress:
    """Return a snapshot of the running job for display; see `Progress`."""
    running = frozenset(link.rank for link in run.running())
    return Progress(
        run.seconds(),
        {link.rank: link.stdout.text() for link in run.links},
        {link.rank: link.stderr.text() for link in run.links},
        frozenset(run.done),
        running,
        still,
        run.seconds() - run.still.since if run.still is not None else 0.0,
        silence,
    )


# -- where its ranks are ------------------------------------------------------------------------------------------


def get_all_statuses(wires: Wires, run: Run) -> dict[int, RankStatus]:
    """Ask all ranks for their status, and wait for those that may not have had a core to answer on."""
    used: dict[int, float] = {}
    asleep: Counter[int] = Counter()

    def given_up(link: Link) -> bool:
        used.setdefault(link.rank, link.processor_seconds())
        wants_a_core = not link.here or link.pid is None or wants_to_run(link.pid)
        asleep[link.rank] = 0 if wants_a_core else asleep[link.rank] + 1
        halted = link.rank in run.locked or link.is_stopped() or link.is_unresponsive
        return halted or asleep[link.rank] >= _ASLEEP or must_have_heard(link, used)

    def enough(silent: Sequence[Link]) -> bool:
        return min(map(given_up, silent))  # all of them are looked at each time

    return wires.get_statuses(ANSWER_SECONDS_IF_PROVED, detail=True, enough=enough)


def see_where(wires: Wires, run: Run) -> None:
    """Record where each late rank is before it is ended."""
    statuses = get_all_statuses(wires, run)
    run.details = statuses
    for link in run.running():
        if link.rank in statuses:
            status = statuses[link.rank]
            waiting = deadlock.describe(status, statuses, state_of(status), failed_ranks(run))
            run.waiting[link.rank] = dataclasses.replace(waiting, seconds=_seconds_of(waiting, run))
        else:
            run.waiting[link.rank] = of_unanswering(wires, run, link)


def of_unanswering(wires: Wires, run: Run, link: Link) -> Waiting:
    """Describe a rank that does not answer, from its process state and its stack."""
    if link.is_stopped():
        return Waiting(link.rank, None, "", "", state=RankState.STOPPED)
    if link.is_unresponsive:
        return Waiting(link.rank, None, "", "", state=RankState.UNHEARD)
    stack = _stack_from_signal(wires, link)
    where, source = (stack[-1].where(), stack[-1].source) if stack else ("", "")
    state = RankState.LOCKED if link.rank in run.locked else RankState.SILENT
    return Waiting(link.rank, None, where, source, state=state, stack=stack)


def state_of(status: RankStatus) -> RankState:
    """Classify what a rank that must be ended is doing, for `Waiting.state`."""
    if status.pause is not None and status.pause[1] == PauseKind.GPU:
        return RankState.GPU  # CUDA spins or sleeps while it waits: being awake does not tell
    if not status.asleep:
        return RankState.COMPUTING
    return (
        RankState.BLOCKED
        if status.waiting_in is not None
        else RankState.ASLEEP
        if status.pause
        else RankState.COMPUTING
    )


def failed_ranks(run: Run) -> frozenset[int]:
    """Return the ranks that have left the code with an error."""
    return frozenset(rank for rank, done in run.done.items() if done.error is not None)


def _seconds_of(waiting: Waiting, run: Run) -> float | None:
    """Return how long a rank has been waiting in its collective."""
    if waiting.state != RankState.BLOCKED or waiting.collective is None:
        return None
    return (time.time_ns() - max(waiting.collective.time_ns, run.started_ns)) / 1e9


def see_details(wires: Wires, run: Run) -> None:
    """Ask for the lines behind a proved deadlock, and whatever else the ranks can report."""
    statuses = get_all_statuses(wires, run)
    run.details = statuses
    for rank, waiting in run.waiting.items():
        if rank in statuses and waiting.state == RankState.BLOCKED:
            run.waiting[rank] = deadlock.describe(statuses[rank], statuses, failed=failed_ranks(run))


def _stack_from_signal(wires: Wires, link: Link) -> tuple[Frame, ...]:
    """Return the learner's frames of the thread that holds the GIL, as faulthandler prints them (innermost first)."""
    link.signal(STACK_SIGNAL)
    deadline = time.monotonic() + 0.5
    # faulthandler writes frame by frame; the outermost one is always <module>.
    while link.outermost not in link.stack_dump.text() and time.monotonic() < deadline:
        wires.pump(deadline - time.monotonic())
    return link.main_stack()


def must_have_heard(link: Link, used: Mapping[int, float]) -> bool:
    """Check for a rank that has run so long since the first request that another one would not help.

    Args:
        used: the processor seconds of each rank when it was asked first.
    """
    return link.processor_seconds() - used[link.rank] >= _HEARD_SECONDS


# -- its outcome --------------------------------------------------------------------------------------------------


def conclude(wires: Wires, run: Run) -> Outcome:
    """Judge how each rank's part ended, ask what it takes to explain it, and put it all into one object."""
    parts = {link.rank: _ending(run, link.rank) for link in run.links}
    exits = _exits(wires, run, parts)
    errors = {
        rank: done.error
        for rank, done in sorted(run.done.items())
        if done.error is not None and parts[rank] is Ending.RAISED
    }
    endings = {
        rank: Ending.FREED if _was_freed(run, rank, ending, errors.get(rank), bool(exits)) else ending
        for rank, ending in parts.items()
    }
    kind = _kind(run, endings, exits)
    if kind is not Kind.OK and not run.details:
        run.details = get_all_statuses(wires, run)
    run.details = {**run.details, **_final_statuses(run)}
    waiting = {rank: seen for rank, seen in run.waiting.items() if rank in run.stopped_at}
    return Outcome(
        kind=kind,
        world_size=wires.world_size,
        ranks=tuple(link.rank for link in run.links),
        stdout={link.rank: link.stdout.text() for link in run.links},
        stderr={link.rank: link.stderr.text() for link in run.links},
        shown={rank: done.shown for rank, done in sorted(run.done.items()) if done.shown is not None},
        errors=errors,
        exits=exits,
        endings=endings,
        waiting=dict(sorted(waiting.items())),
        pictures={link.rank: tuple(link.pictures) for link in run.links if link.pictures},
        proved=run.proved,
        doubts=run.doubts,
        stalled_for=run.stalled_for,
        interrupted=run.interrupted,
        timed_out=run.timed_out,
        seconds=run.seconds(),
        what=what_was_run(run.job),
        recorded=_recorded(run, kind),
        facts=_facts(run),
        last_places={rank: _last_place(run, rank) for rank in sorted(run.died_first)},
        trace_events={rank: done.trace for rank, done in sorted(run.done.items()) if done.trace},
        never_struck=tuple(
            sentence for _, done in sorted(run.done.items()) for sentence in done.never_struck
        ),
        hosts={link.rank: link.host_name for link in wires.links if link.host_name},
        packed={
            rank: (done.value, done.not_sent) for rank, done in sorted(run.done.items()) if done.has_value
        },
    )


def if_ended_now(wires: Wires, run: Run) -> Outcome | None:
    """Build the outcome that a run without progress would have if it ended now; None while it makes progress."""
    found = run.lasting()
    if found is None:
        return None
    return _so_far(wires, run, found.waiting, () if found.may_resume else found.doubts)


def stalled(wires: Wires, run: Run) -> Outcome:
    """Build the outcome of a run without progress, from statuses that were just read."""
    return dataclasses.replace(_so_far(wires, run, run.waiting, run.doubts), stalled_for=run.stalled_for)


def _so_far(wires: Wires, run: Run, waiting: Mapping[int, Waiting], doubts: tuple[str, ...]) -> Outcome:
    return Outcome(
        kind=Kind.HANG,
        world_size=wires.world_size,
        ranks=tuple(link.rank for link in run.links),
        stdout={},
        stderr={},
        shown={},
        errors={rank: done.error for rank, done in sorted(run.done.items()) if done.error is not None},
        exits={},
        endings={
            link.rank: Ending.RAISED if run.done[link.rank].error is not None else Ending.FINISHED
            for link in run.links
            if link.rank in run.done
        },
        waiting=waiting,
        pictures={},
        doubts=doubts,
        timed_out=True,
        seconds=run.seconds(),
        what=what_was_run(run.job),
        recorded=_seen(run),
        facts=_facts(run),
    )


def _ending(run: Run, rank: int) -> Ending:
    """Determine how the rank's part ended, from its own reports."""
    done = run.done.get(rank)
    if rank in run.killed:
        return Ending.KILLED
    if rank in run.ended:
        return Ending.ENDED
    if done is None:
        return Ending.DIED
    return Ending.FINISHED if done.error is None else Ending.RAISED


def _exits(wires: Wires, run: Run, parts: Mapping[int, Ending]) -> dict[int, int]:
    """Collect the exit codes of the ranks that died."""
    exits = {
        link.rank: run.died_first.get(link.rank, link.exit_code or 0)
        for link in run.links
        if parts[link.rank] is Ending.DIED
    }
    # Ranks outside the job can die as well (a fault of an earlier cell, a kill from outside).
    for link in wires.links:
        known = link.rank in parts or link.rank in run.gone_before or link.killed_by_course
        if not link.alive and not known:
            exits[link.rank] = link.exit_code or 0
    return dict(sorted(exits.items()))


def lost_a_peer(message: str) -> bool:
    """Check for an error that torch raises because another rank is gone, or was freed."""
    return any(sign in message.lower() for sign in PEER_LOST)


def _was_freed(run: Run, rank: int, ending: Ending, error: RankError | None, a_rank_died: bool) -> bool:
    """Check whether a rank's part was ended from outside: by an interrupt, or by the death of a peer."""
    why = run.stopped_at.get(rank)
    if ending is Ending.RAISED and why not in (None, "stopped"):
        return True
    if ending is Ending.FINISHED and why == "deadlock":
        return True
    return a_rank_died and error is not None and lost_a_peer(error.message)


def _kind(run: Run, endings: dict[int, Ending], exits: dict[int, int]) -> Kind:
    if exits:
        return Kind.DIED
    if Ending.RAISED in endings.values():
        return Kind.RAISES
    if run.proved or run.timed_out:
        return Kind.HANG
    if run.interrupted and run.killed:
        return Kind.RAISES
    return Kind.OK


def _final_statuses(run: Run) -> dict[int, RankStatus]:
    """Take the last statuses of ranks that C++ code terminated."""
    last = {link.rank: link.take(TerminateReport, 0) for link in run.links if link.rank in run.died_first}
    return {rank: words.status.of_rank(rank) for rank, words in last.items() if words is not None}


def _recorded(run: Run, kind: Kind) -> dict[int, tuple[Collective, ...]]:
    """Return the collectives if the run went wrong (rebuilding the group discards them) or was watched."""
    if kind is Kind.OK and not run.doubts:
        return {rank: done.records for rank, done in sorted(run.done.items()) if done.records is not None}
    return _seen(run)


def _seen(run: Run) -> dict[int, tuple[Collective, ...]]:
    """Collect the run's collectives from the ranks' last statuses or final replies."""
    at_end = {rank: done.records for rank, done in run.done.items() if done.records is not None}
    latest = {
        # What an earlier cell has left open is part of the story.
        rank: tuple(
            record for record in status.records if record.time_ns >= run.started_ns or not record.done
        )
        for rank, status in {**run.statuses, **run.details}.items()
    }
    return dict(sorted({**at_end, **latest}.items()))


def _facts(run: Run) -> dict[int, Facts]:
    """Collect what the ranks reported about themselves: while blocked, when they raised, or at the end."""
    facts = {rank: status.facts for rank, status in run.details.items() if status.facts is not None}
    for rank, done in run.done.items():
        if done.facts is not None:
            # What a rank was handling when it waited has nothing to do with how it was freed.
            handled = facts[rank].handled if rank in facts else None
            facts[rank] = dataclasses.replace(done.facts, handled=handled)
    return dict(sorted(facts.items()))


def _last_place(run: Run, rank: int) -> tuple[Frame, ...]:
    """Return the stack of a rank that crashed, as far as it could still report it."""
    if rank in run.details:
        # C++ has ended it, and it could still be asked: what had it issued that was not over? Its main thread may have
        # gone on meanwhile, and a dump of frames that move breaks off.
        status = run.details[rank]
        issued = [record.origin for record in status.records if not record.done and record.origin is not None]
        return tuple(issued[:1]) or tuple(frame for frame in status.stack if is_learners(frame.file))
    return next(link for link in run.links if link.rank == rank).main_stack()
