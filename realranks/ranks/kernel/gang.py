"""A gang: the ranks that start, fail and restart together. How it starts, takes jobs, answers questions and stops.

States: starting -> idle <-> busy; idle/busy -> broken (a rank is gone: only a restart helps) -> stopped. One thread
drives a gang at a time; nothing here polls: every wait is for a file descriptor. What a job is, and what its outcome is
made of, stands in `job`; it is followed in `follow_job`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

from realranks.outcome.outcome import (
    NOT_ARRIVED,
    Collective,
    Outcome,
    RankError,
    RankVariableError,
    exit_text,
)
from realranks.outcome.packed import Packed
from realranks.outcome.syntax import compile_if_clean, remember_cell
from realranks.ranks.kernel import deadlock
from realranks.ranks.kernel.backend import BackendChoice
from realranks.ranks.kernel.follow_job import follow
from realranks.ranks.kernel.interrupts import StopRequests, deferred
from realranks.ranks.kernel.job import Job, Options, Run
from realranks.ranks.kernel.launcher import LaunchError
from realranks.ranks.kernel.links import GangLink, Link, Wires
from realranks.ranks.kernel.live_outcome import LiveOutcome
from realranks.ranks.kernel.local_start import GangError, LocalStart, Start, check_size, validate_request
from realranks.ranks.kernel.rebuild_group import gpu_notes, group_is_broken, rebuilt_note, variables_lost
from realranks.ranks.kernel.stop_ranks import ANSWER_SECONDS_ON_GPUS
from realranks.ranks.messages import (
    Call,
    Cell,
    Fetch,
    Fetched,
    Free,
    Freed,
    Rebuild,
    Rebuilt,
    Script,
    encode_message,
)

#: Connecting every rank with every other takes time that grows with their number.
_START_SECONDS, _START_SECONDS_PER_RANK = 60.0, 1.0
_REBUILD_SECONDS, _REBUILD_SECONDS_PER_RANK, _REBUILD_SECONDS_IF_CUT = 10.0, 0.5, 4.0
_FETCH_SECONDS = 60.0
#: Ranks that are idle say which line issued what within this; the first time it takes a second to load the symbols.
_LINES_SECONDS = 5.0


class State(enum.StrEnum):
    """The state of a gang."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    BROKEN = "broken"
    STOPPED = "stopped"


class GangOverError(GangError):
    """The gang takes no more jobs.

    `state` says why: who shows the error knows how a gang is started there.
    """

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state


class Gang(Wires):
    """Real ranks with a process group, and state that lasts from job to job.

    Attributes:
        init: whether the process group is the course's own, or the learner's.
        state: what the gang can do now.
        epoch: how many process groups its ranks have been given after the first.
        used: when its ranks were last asked for something, by `time.monotonic`.
        numbers: how many operations each rank had issued on each of its groups when the last job ended.
    """

    links: list[GangLink]

    def __init__(
        self,
        world_size: int,
        *,
        backend: str = "auto",
        init: bool = True,
        method: str | None = None,
        limits: dict[str, int] | None = None,
        environment: dict[str, str] | None = None,
        isolated: bool = False,
        start: Start | None = None,
    ) -> None:
        """Start a gang; returns at once, `wait_ready` waits.

        Args:
            world_size: number of ranks. backend: `auto`, `gloo` or `nccl`.
            init: False leaves `init_process_group` to the learner's code (RANK, MASTER_ADDR, ... are set all the same).
            limits: resource limits of each rank, by the name in the `resource` module.
            environment: variables added to the kernel's own.
            isolated: let ranks reach each other and nothing else, where the system can do that (`isolation`).
            start: who starts the ranks, where that is not this machine; then what these four say is its business.

        Raises:
            GangError, BackendError, LaunchError: one clear line each.
        """
        self.start = start or LocalStart(
            world_size, backend, method, environment or {}, limits or {}, isolated
        )
        super().__init__(self.start.lock)
        self.world_size = world_size
        self.init = init
        self.requested_backend = backend
        self.links = []
        self.state = State.STARTING
        self.epoch = 0
        self.used = time.monotonic()
        self.numbers: dict[int, Mapping[str, int]] = {}
        try:
            with deferred() as stop:
                for link in self.start.begin(self, init):
                    self.links.append(link)
                if stop.pressed:
                    stop.acknowledge()
                    raise KeyboardInterrupt
        except OSError as error:
            self.stop()
            raise GangError(f"{world_size} ranks cannot be started: {error.strerror or error}.") from error
        except BaseException:
            self.stop()
            raise

    # -- start and stop -----------------------------------------------------------------------------------------

    @property
    def backend(self) -> BackendChoice:
        """That of the ranks' process group, and why."""
        return self.start.backend

    def wait_ready(self, stop: StopRequests | None = None) -> None:
        """Wait until every rank has answered (and joined the process group).

        Raises:
            GangError: a rank could not start; KeyboardInterrupt: the stop button was pressed.
        """
        if self.state in (State.IDLE, State.BUSY):
            return
        with contextlib.ExitStack() as stack:
            stop = stop or stack.enter_context(deferred())
            stack.enter_context(self.watching_stop(stop))
            self._wait_for_answers(stop)
        problems = [
            (link.rank, link.ready.problem) for link in self.links if link.ready and link.ready.problem
        ]
        if problems:
            self.stop()
            raise GangError(self._group_problem(*problems[0]))
        if self.state is State.STARTING:
            self.state = State.IDLE
            for link in self.links:
                link.stdout.clear()

    def _wait_for_answers(self, stop: StopRequests) -> None:
        deadline = time.monotonic() + self._start_patience()
        # A rank may be ready before the process that has forked it says so.
        while any(link.ready is None or link.pid is None for link in self.links):
            lost = [link for link in self.links if not link.alive]
            if lost or time.monotonic() > deadline:
                reason = self._start_problem(lost)
                if not lost:
                    self.start.cancel()
                self.stop()
                raise GangError(reason)
            self.pump(deadline - time.monotonic())
            if stop.pressed:
                stop.acknowledge()
                self.stop()
                raise KeyboardInterrupt

    def _start_patience(self) -> float:
        """Return how many seconds ranks may take to start and to connect."""
        return _START_SECONDS + _START_SECONDS_PER_RANK * self.world_size

    def _group_problem(self, rank: int, problem: RankError) -> str:
        message = f"The process group did not start: rank {rank}: {problem.type}: {problem.message}"
        if self.backend.name == "nccl":
            message += " (--backend gloo starts the same ranks without NCCL.)"
        return message

    def _start_problem(self, lost: Sequence[GangLink]) -> str:
        if not lost:
            late = [link.rank for link in self.links if link.ready is None]
            return f"Rank(s) {late} did not start in time."
        link = lost[0]
        link.stderr.drain()
        why = self.start.why(link) or link.stderr.text().strip()[-500:] or "no message"
        return f"Rank {link.rank} ended while starting ({exit_text(link.exit_code or 0)}): {why}"

    def stop(self, gently: bool = True) -> None:
        """End all ranks and return at once.

        Idle ranks close the learner's files and leave, or are killed a second later; all others, and all ranks where
        `gently` is False, are killed now.
        """
        if self.state is State.STOPPED:
            return
        idle = gently and self.state is State.IDLE
        with deferred():
            self.state = State.STOPPED
            for link in self.links:
                if link.alive and idle:
                    link.dismiss()
                elif link.alive:
                    link.kill()
                link.close()
            self.start.close()
            self._selector.close()

    def reap(self, timeout: float = 5.0) -> None:
        """Wait until every process of a stopped gang is gone."""
        deadline = time.monotonic() + timeout
        while any(link.pid is None or link.alive for link in self.links) and time.monotonic() < deadline:
            if not self.start.wait(0.5):
                return

    # -- jobs ---------------------------------------------------------------------------------------------------

    def run_cell(
        self,
        source: str,
        *,
        label: str = "cell",
        first_line: int = 1,
        code: bytes | None = None,
        **options: Unpack[Options],
    ) -> Outcome:
        """Run source code on the ranks as a notebook cell; options as in `job.Job`.

        Args:
            label, first_line: what the learner knows it by.
            code: what `compile_if_clean` gave for it, where that has been asked.
        """
        remember_cell(source, label, first_line)
        if code is None:
            code = compile_if_clean(source, label, first_line)
        return self._run(Job(Cell(source, label, first_line, code=code), **options))

    def call(self, payload: bytes, **options: Unpack[Options]) -> Outcome:
        """Call a pickled `(function, arguments, faults)` on the ranks; options as in `job.Job`."""
        return self._run(Job(Call(payload), **options))

    def run_script(self, path: str, arguments: Sequence[str] = (), **options: Unpack[Options]) -> Outcome:
        """Run a script on the ranks as `torchrun` would; options as in `job.Job`."""
        return self._run(Job(Script(path, tuple(arguments)), **options))

    def _run(self, job: Job) -> Outcome:
        with self._lock, deferred() as stop, self.watching_stop(stop):
            if not self.has_survivors(job.only):
                self._check_alive()
            unknown = [rank for rank in job.only or () if not 0 <= rank < self.world_size]
            if unknown:
                raise GangError(
                    f"There is no rank {unknown[0]}: the {self.world_size} ranks are 0 to {self.world_size - 1}."
                )
            if self.state is not State.BROKEN:
                self.wait_ready(stop)
            self.state = State.BUSY
            try:
                outcome = self._run_to_end(job, stop)
                self.pump(0.0)
                if lost := self.start.lost_message():
                    outcome = dataclasses.replace(outcome, notes=(*outcome.notes, lost))
                if stop.pressed:
                    stop.acknowledge()
                    outcome = dataclasses.replace(outcome, interrupted=True)
                return outcome
            finally:
                self.used = time.monotonic()
                if self.state is State.BUSY:
                    self.state = State.IDLE if all(link.alive for link in self.links) else State.BROKEN

    def _run_to_end(self, job: Job, stop: StopRequests) -> Outcome:
        """Run the job to its end, whatever that is, and leave the gang usable if that is possible."""
        links: list[Link] = [link for link in self.links if job.only is None or link.rank in job.only]
        self.job += 1
        gone = frozenset(link.rank for link in self.links if link.vanished)
        run = Run(job, self.job, links, gone_before=gone)
        for link in self.links:
            link.forget_last_job()
        work = dataclasses.replace(job.work, trace=job.trace, around=job.around)
        message = encode_message(work, run.number).encode()
        for taking_part in links:
            taking_part.awaited = run.number
            taking_part.channel.send_encoded(message)
        outcome = follow(self, run, stop)
        if outcome.ok and not outcome.recorded and self._in_step(run):
            self.numbers = {rank: done.sequence for rank, done in run.done.items()}
            return self._live(outcome, run.started_ns, time.time_ns())
        return self._with_group_repaired(run, outcome)

    def _in_step(self, run: Run) -> bool:
        """Check that all ranks have issued the same number of operations, in this job and before.

        Most cells end like this, and nothing more has to be asked.
        """
        before = [self.numbers.get(link.rank, {}) for link in self.links]
        return (
            len(run.links) == len(self.links)
            and run.well_and_even()
            and not any(done.gpu_busy for done in run.done.values())
            and not _differ_on_gpus(run)
            and all(numbers == before[0] for numbers in before)
        )

    def _with_group_repaired(self, run: Run, outcome: Outcome) -> Outcome:
        """Make the gang usable again if possible, and add to the outcome what else there is to report."""
        notes = self._repair_group(run)
        fetchable = not run.killed and not outcome.exits
        started, ended = run.started_ns, time.time_ns()
        if outcome.ok and (_has_mismatch(outcome) or _differ_on_gpus(run) or self._has_open_collective(run)):
            # Which lines were those? Only now is it worth asking for them.
            statuses = self.get_statuses(_LINES_SECONDS, detail=True)
            outcome = dataclasses.replace(
                outcome,
                recorded=deadlock.issued_between(statuses, started, ended),
                facts=outcome.facts
                or {
                    rank: status.facts
                    for rank, status in sorted(statuses.items())
                    if status.facts is not None
                },
            )
        outcome = dataclasses.replace(outcome, notes=notes)
        return self._live(outcome, started, ended) if fetchable else outcome

    def _has_open_collective(self, run: Run) -> bool:
        """Check whether members of a group have issued unequal numbers of collectives in this job.

        Each reply carries the groups' own numbers. They also count messages between two ranks, so unequal ones are only
        a reason to look.
        """
        before, self.numbers = self.numbers, {rank: done.sequence for rank, done in run.done.items()}
        grown = {
            rank: {name: number - before.get(rank, {}).get(name, 0) for name, number in numbers.items()}
            for rank, numbers in self.numbers.items()
        }
        names = {name for numbers in grown.values() for name in numbers}
        if all(len({each[name] for each in grown.values() if name in each}) < 2 for name in names):
            return False
        statuses = self.get_statuses(_LINES_SECONDS)
        for name in names:
            members = {status.members[name] for status in statuses.values() if name in status.members}
            if len(members) != 1 or not set(*members) <= set(statuses):
                continue
            if len({statuses[rank].issued(name) for rank in next(iter(members))}) > 1:
                return True
        return False

    def _live(self, outcome: Outcome, started_ns: int, ended_ns: int) -> LiveOutcome:
        issued = functools.partial(self.collectives_between, started_ns, ended_ns)
        return LiveOutcome.of(outcome, self.fetch, issued)

    def _repair_group(self, run: Run) -> tuple[str, ...]:
        """Rebuild what the job has broken; returns what the learner has to know about that."""
        if not all(link.alive for link in self.links):
            self.state = State.BROKEN
            return variables_lost(run)
        if not run.job.repair or not group_is_broken(run):
            return gpu_notes(run, self.numbers)
        if not self.init:
            return ("The ranks are free again; their process groups are yours to rebuild.",)
        return (
            rebuilt_note(self.rebuild_group(cut=any(doubt.endswith(NOT_ARRIVED) for doubt in run.doubts))),
        )

    def has_survivors(self, only: Sequence[int] | None) -> bool:
        """Check whether a machine is lost and all these ranks live on others: a job on them can still save data.

        Their process group is lost with the others.
        """
        lost = any(link.vanished for link in self.links)
        return lost and bool(only) and all(link.alive for link in self.links if link.rank in (only or ()))

    def _check_alive(self) -> None:
        if self.state is State.STOPPED:
            raise GangOverError("These ranks have been stopped.", self.state)
        self.refresh()
        if self.state is State.BROKEN:
            raise GangOverError("A rank has ended, and the others cannot go on without it.", self.state)

    def refresh(self) -> None:
        """Notice what has happened between jobs: ranks that died, output that came late."""
        if self.state in (State.STOPPED, State.STARTING):
            return
        self.pump(0.0)
        if not all(link.alive for link in self.links):
            self.state = State.BROKEN

    # -- between jobs -----------------------------------------------------------------------------------------

    def silence_notice(self) -> str:
        """Name the machines that have been silent for some seconds, in sentences; '' if none is."""
        return self.start.silence_notice()

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        self.start.poll(self)
        super().pump(timeout)

    def fetch(self, name: str | None, through: Callable[..., object] | None = None) -> dict[int, Packed]:
        """Fetch a variable of the ranks' namespace (or, with None, the last value) by rank, still packed.

        Args:
            name: of the variable. through: a function of an importable module that is called with it on each rank;
                what it returns is sent instead.

        Raises:
            RankVariableError: no rank has it, or the gang is gone.
        """
        with self._lock, deferred() as stop, self.watching_stop(stop):
            if self.state is not State.IDLE:
                raise RankVariableError(
                    f"{name or 'the value'!r} cannot be fetched: the ranks are {self.state}."
                )
            self.used = time.monotonic()
            how = f"{through.__module__}:{through.__qualname__}" if through is not None else None
            replies = self.ask(Fetch(name, how), Fetched, _FETCH_SECONDS, stop=stop)
            if stop.pressed:
                stop.acknowledge()
                raise KeyboardInterrupt
        if not replies:
            raise RankVariableError(f"{name or 'the value'!r} cannot be fetched: no rank answers.")
        found = {rank: reply for rank, reply in sorted(replies.items()) if reply.found}
        if not found:
            raise RankVariableError(f"No rank has a variable named {name!r}.")
        return {rank: (reply.value, reply.not_sent) for rank, reply in found.items()}

    def collectives_between(self, started_ns: int, ended_ns: int) -> dict[int, tuple[Collective, ...]]:
        """Return the collectives issued in a span of time, by rank; empty when the gang is gone."""
        if self.state not in (State.IDLE, State.BUSY):
            return {}
        return deadlock.issued_between(self.get_statuses(_FETCH_SECONDS, detail=True), started_ns, ended_ns)

    def rebuild_group(self, cut: bool = False) -> int | None:
        """Give the ranks a new process group, keeping their Python state.

        Args:
            cut: the network between the ranks' machines was cut a moment ago: either it is mended, or no group comes.

        Returns how many DDP wrappers were moved to it on rank 0, or None when that failed: only a restart helps then.
        """
        if not all(link.alive for link in self.links):
            self.state = State.BROKEN
            return None
        if not self.init:
            return 0
        self.epoch += 1
        patience = _REBUILD_SECONDS + _REBUILD_SECONDS_PER_RANK * self.world_size
        if cut:
            patience = _REBUILD_SECONDS_IF_CUT
        elif any(link.uses_gpus for link in self.links):  # NCCL may connect them anew, as at the start
            patience = self._start_patience()
        replies = self.ask(Rebuild(self.epoch), Rebuilt, patience)
        if len(replies) < self.world_size or any(reply.problem is not None for reply in replies.values()):
            for link in self.links:
                link.kill()
            self.state = State.BROKEN
            return None
        return replies[0].wrappers

    def rescue(self) -> int | None:
        """Free ranks that are blocked, then rebuild the group; see `rebuild_group`."""
        with self._lock, deferred():
            self._check_alive()
            self.ask(Free(), Freed, ANSWER_SECONDS_ON_GPUS)
            return self.rebuild_group()

    def restarted(self) -> Gang:
        """End this gang and start one like it: same size, backend and options, nothing of its state."""
        self.stop()
        return Gang(
            self.world_size, backend=self.requested_backend, init=self.init, start=self.start.for_new_gang()
        )


def _has_mismatch(outcome: Outcome) -> bool:
    """Check for ranks that met in collectives which do not match."""
    groups = {rank: facts.all_groups() for rank, facts in outcome.facts.items()}
    return bool(outcome.recorded) and deadlock.first_misfit(outcome.recorded, groups) is not None


def _differ_on_gpus(run: Run) -> bool:
    """Check for mismatched NCCL collectives under one number: then it is worth asking who is in the group."""
    recorded = {rank: done.on_gpu for rank, done in run.done.items() if done.on_gpu}
    if len(recorded) < 2:
        return False
    names = {record.group.partition("/")[0] for records in recorded.values() for record in records}
    everyone = dict.fromkeys(names, tuple(recorded))
    return deadlock.first_misfit(recorded, dict.fromkeys(recorded, everyone)) is not None


__all__ = ["Gang", "GangError", "GangOverError", "LaunchError", "State", "check_size", "validate_request"]
