"""A gang: the ranks that start, fail and restart together. How it starts, takes jobs and stops.

States: starting -> idle <-> busy; idle/busy -> broken (a rank is gone: only a restart helps) -> stopped. One thread
drives a gang at a time; nothing here polls: every wait is for a file descriptor. Running a job is in `run_job`, what
ready ranks can be asked for in `ready_gang`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from typing import Unpack

from realranks.outcome.outcome import Outcome, RankError, exit_text
from realranks.outcome.syntax import compile_if_clean, remember_cell
from realranks.ranks.kernel import run_job
from realranks.ranks.kernel.backend import BackendChoice
from realranks.ranks.kernel.interrupts import StopRequests, deferred
from realranks.ranks.kernel.job import Job, Options
from realranks.ranks.kernel.launcher import LaunchError
from realranks.ranks.kernel.local_start import GangError, LocalStart, Start, check_size, validate_request
from realranks.ranks.kernel.rank_handle import GangLink
from realranks.ranks.kernel.ready_gang import ReadyGang, State, start_patience
from realranks.ranks.kernel.stop_ranks import ANSWER_SECONDS_ON_GPUS
from realranks.ranks.messages import Call, Cell, Free, Freed, Script


class Gang(ReadyGang):
    """Real ranks with a process group, and state that lasts from job to job."""

    def __init__(
        self,
        world_size: int,
        *,
        backend: str = "auto",
        init: bool = True,
        method: str | None = None,
        limits: dict[str, int] | None = None,
        environment: dict[str, str] | None = None,
        start: Start | None = None,
    ) -> None:
        """Start a gang; returns at once, `wait_ready` waits.

        Args:
            world_size: number of ranks. backend: `auto`, `gloo` or `nccl`.
            init: False leaves `init_process_group` to the learner's code (RANK, MASTER_ADDR, ... are set all the same).
            limits: resource limits of each rank, by the name in the `resource` module.
            environment: variables added to the kernel's own.
            start: who starts the ranks, where that is not this machine; then `method`, `limits` and `environment` are
                its business.

        Raises:
            GangError, BackendError, LaunchError: one clear line each.
        """
        self.start = start or LocalStart(world_size, backend, method, environment or {}, limits or {})
        super().__init__(world_size, init)
        self.requested_backend = backend
        try:
            with deferred() as stop:
                self.start.begin(self)
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
        deadline = time.monotonic() + start_patience(self.world_size)
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
            if not self.start.wait(self, 0.5):
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

    def silence_notice(self) -> str:
        """Name the machines that have been silent for some seconds, in sentences; '' if none is."""
        return self.start.silence_notice()

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        self.start.poll(self)
        super().pump(timeout)

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
                outcome = run_job.run(self, job, stop)
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

    def has_survivors(self, only: Sequence[int] | None) -> bool:
        """Check whether a machine is lost and all these ranks live on others: a job on them can still save data.

        Their process group is lost with the others.
        """
        lost = any(link.vanished for link in self.links)
        return lost and bool(only) and all(link.alive for link in self.links if link.rank in (only or ()))

    def _check_alive(self) -> None:
        if self.state is State.STOPPED:
            raise GangError("These ranks have been stopped.", self.state)
        self.refresh()
        if self.state is State.BROKEN:
            raise GangError("A rank has ended, and the others cannot go on without it.", self.state)

    def refresh(self) -> None:
        """Notice what has happened between jobs: ranks that died, output that came late."""
        if self.state in (State.STOPPED, State.STARTING):
            return
        self.pump(0.0)
        if not all(link.alive for link in self.links):
            self.state = State.BROKEN

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


__all__ = ["Gang", "GangError", "LaunchError", "State", "check_size", "validate_request"]
