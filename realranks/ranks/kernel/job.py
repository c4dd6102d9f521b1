"""A job under way on a gang: what is to be run, and what is known of it so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from realranks.outcome.outcome import EXIT_CUT_OFF, Outcome, Waiting
from realranks.outcome.progress import Progress
from realranks.ranks.kernel.deadlock import Standstill
from realranks.ranks.messages import Around, Call, Cell, JobReply, Script
from realranks.ranks.status import RankStatus

if TYPE_CHECKING:
    from realranks.ranks.kernel.rank_handle import Link


#: When nothing has moved on any rank for as long as this, in seconds, that is worth saying, though it proves nothing.
PROBABLE_SECONDS = 5.0


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
