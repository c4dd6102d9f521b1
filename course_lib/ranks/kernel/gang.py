"""A gang: the ranks that start, fail and restart together. How it starts, takes jobs and stops.

States: starting -> idle <-> busy; idle/busy -> broken (a rank is gone: only a restart helps) -> stopped. One thread
drives a gang at a time; nothing here polls: every wait is for a file descriptor. Running a job is in `run_job`, what
ready ranks can be asked for in `ready_gang`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Unpack

import psutil

from course_lib.outcome.outcome import Outcome, RankError, exit_text
from course_lib.outcome.syntax import compile_if_clean, remember_cell
from course_lib.ranks.kernel import run_job
from course_lib.ranks.kernel.backend import (
    MB_PER_RANK,
    NCCL_SETTINGS,
    NCCL_SETTINGS_OF_OUR_GROUP,
    BackendChoice,
    choose_backend,
    may_share,
)
from course_lib.ranks.kernel.gpus import find_gpus
from course_lib.ranks.kernel.interrupts import StopRequests, deferred
from course_lib.ranks.kernel.job import Job, Options
from course_lib.ranks.kernel.launcher import Launcher, LaunchError, default_method, warm_up
from course_lib.ranks.kernel.rank_handle import RankLink
from course_lib.ranks.kernel.ready_gang import ReadyGang, State, start_patience
from course_lib.ranks.kernel.stop_ranks import ANSWER_SECONDS_ON_GPUS
from course_lib.ranks.messages import Call, Cell, Free, Freed, Script
from course_lib.ranks.server.store import listen_on_loopback
from course_lib.ranks.starting import RankConfig, StoreConfig

MAX_RANKS = 256
#: The variable by which the administrator of a shared machine allows fewer.
MAX_RANKS_VARIABLE = "DDP_COURSE_MAX_RANKS"


class GangError(RuntimeError):
    """The gang cannot do what was asked; the message is one clear line.

    `state` is the gang's, where that is the reason: who shows the error knows how a gang is started there.
    """

    def __init__(self, message: str, state: State | None = None) -> None:
        super().__init__(message)
        self.state = state


def check_size(world_size: int, method: str | None = None) -> None:
    """Refuse gangs that cannot exist, that are not allowed here, or that the machine's memory cannot hold.

    Raises:
        GangError: with the number of ranks that would fit.
    """
    if isinstance(world_size, bool) or not isinstance(world_size, int):
        raise GangError(f"The number of ranks is a whole number, not {world_size!r}.")
    if world_size < 1:
        raise GangError(f"At least 1 rank is needed, not {world_size}.")
    allowed = os.environ.get(MAX_RANKS_VARIABLE, "").strip()
    if allowed.isdecimal() and 0 < int(allowed) < world_size:
        raise GangError(
            f"{world_size} ranks are more than this machine is set up for: {allowed} at most ({MAX_RANKS_VARIABLE})."
        )
    available = psutil.virtual_memory().available
    mb_per_rank = MB_PER_RANK[method or default_method()]
    fits = max(1, int(available / (mb_per_rank * 1e6)))
    if world_size > fits:
        raise GangError(
            f"{world_size} ranks need about {world_size * mb_per_rank / 1000:.1f} GB of memory; "
            f"this machine has {available / 1e9:.1f} GB free, enough for {min(fits, MAX_RANKS)} ranks."
        )
    if world_size > MAX_RANKS:
        raise GangError(
            f"{world_size} ranks are more than the course starts on one machine: {MAX_RANKS} at most."
        )


def validate_request(
    world_size: int,
    backend: str = "auto",
    method: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> BackendChoice:
    """The backend a gang would use, if it can exist at all; starts no gang.

    Args:
        environment: of the ranks, as far as it differs from this process's.

    Raises:
        GangError, BackendError, LaunchError: why it cannot.
    """
    check_size(world_size, method)
    launcher = warm_up(method)
    launcher.wait_ready()
    theirs = {**os.environ, **(environment or {})}
    return choose_backend(world_size, backend, find_gpus(launcher, theirs), may_share(theirs))


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
    ) -> None:
        """Start a gang; returns at once, `wait_ready` waits.

        Args:
            world_size: number of ranks. backend: `auto`, `gloo` or `nccl`.
            init: False leaves `init_process_group` to the learner's code (RANK, MASTER_ADDR, ... are set all the same).
            limits: resource limits of each rank, by the name in the `resource` module.
            environment: variables added to the kernel's own.

        Raises:
            GangError, BackendError, LaunchError: one clear line each.
        """
        self.backend = validate_request(world_size, backend, method, environment)
        super().__init__(world_size, init)
        self.requested_backend = backend
        self.method = method
        self.limits = dict(limits or {})
        self.environment = dict(environment or {})
        self.launcher: Launcher = warm_up(method)
        try:
            with deferred() as stop:
                self._launch()
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

    def _launch(self) -> None:
        listener = listen_on_loopback()
        port = listener.getsockname()[1]
        self._store_wire, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            fds = [theirs.fileno(), null, null, listener.fileno()]
            self.launcher.start(StoreConfig(port), os.environ, fds)
        finally:
            os.close(null)
            theirs.close()
            listener.close()
        for rank in range(self.world_size):
            config = RankConfig(
                rank=rank,
                init=self.init,
                backend=self.backend.init_argument,
                store_port=port,
                gpu=self.backend.gpu_of(rank),
                eager=self.backend.eager,
                epoch=self.epoch,
                limits=self.limits,
            )
            self.links.append(RankLink(rank, self.launcher, config, self._environment_of(rank, port)))
        self._watch(self.launcher.fileno(), self.launcher.pump)
        for link in self.links:
            self._watch_link(link)

    def _environment_of(self, rank: int, port: int) -> dict[str, str]:
        return {
            **(NCCL_SETTINGS_OF_OUR_GROUP if self.init else {}),
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCH_FR_BUFFER_SIZE": "2000",
            # Nothing listens on anything but the loopback interface.
            "GLOO_SOCKET_IFNAME": "lo0" if os.uname().sysname == "Darwin" else "lo",
            **NCCL_SETTINGS,
            **self.environment,
            **self.backend.environment,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "GROUP_RANK": "0",
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            # The store listens before any rank starts, as torchrun's agent arranges it.
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }

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
                    self.launcher.give_up()
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

    def _start_problem(self, lost: Sequence[RankLink]) -> str:
        if not lost:
            late = [link.rank for link in self.links if link.ready is None]
            return f"Rank(s) {late} did not start in time."
        link = lost[0]
        link.stderr.drain()
        why = self.launcher.failures.get(link.token) or link.stderr.text().strip()[-500:] or "no message"
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
            with contextlib.suppress(OSError, AttributeError):
                self._store_wire.close()
            self._selector.close()

    def reap(self, timeout: float = 5.0) -> None:
        """Wait until every process of a stopped gang is gone."""
        import select

        deadline = time.monotonic() + timeout
        while any(link.pid is None or link.alive for link in self.links) and time.monotonic() < deadline:
            if self.launcher.gone:
                return  # killed, and its ranks with it
            select.select([self.launcher], [], [], 0.5)
            self.launcher.pump()

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

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        if self.launcher.gone:
            self._forget(self.launcher.fileno())
        super().pump(timeout)

    def _run(self, job: Job) -> Outcome:
        with self._lock, deferred() as stop, self.watching_stop(stop):
            self._check_alive()
            unknown = [rank for rank in job.only or () if not 0 <= rank < self.world_size]
            if unknown:
                raise GangError(
                    f"There is no rank {unknown[0]}: the {self.world_size} ranks are 0 to {self.world_size - 1}."
                )
            self.wait_ready(stop)
            self.state = State.BUSY
            try:
                outcome = run_job.run(self, job, stop)
                self.pump(0.0)
                if self.launcher.gone:
                    note = "The process that starts ranks was killed, and the ranks with it: their variables are lost."
                    outcome = dataclasses.replace(outcome, notes=(*outcome.notes, note))
                if stop.pressed:
                    stop.acknowledge()
                    outcome = dataclasses.replace(outcome, interrupted=True)
                return outcome
            finally:
                self.used = time.monotonic()
                if self.state is State.BUSY:
                    self.state = State.IDLE if all(link.alive for link in self.links) else State.BROKEN

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
            self.world_size,
            backend=self.requested_backend,
            init=self.init,
            method=self.method,
            limits=self.limits,
            environment=self.environment,
        )


__all__ = ["Gang", "GangError", "LaunchError", "State", "check_size"]
