"""A script that starts its ranks itself, seen by the doctor: it runs once, and its processes attach as ranks.

The script runs in the only process of a gang, so that whatever it starts ends with the doctor. Its processes connect
to a socket in a private folder (`process_starts` is their side). While ranks of a group run, they are what is followed;
before, between and after them it is the script's own process.

Tried instead: a `sitecustomize`, first on PYTHONPATH and chaining to the user's, that attaches a process when it enters
`init_process_group`. It also sees ranks that the script starts by `subprocess` or torchrun, which this does not. Lost:
ranks that raise or return before that call or are never started (4 of 17 tests of `test_own_launch`: a timeout, or the
launcher's error; under torchrun, a rank that the agent ended was blamed), and both scenarios of `left_behind_by_spawn`
(2 of 15 with a launch of their own). `python -I` does not read it, and the script finds another PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from realranks.outcome.outcome import Outcome
from realranks.ranks.kernel.follow_job import follow
from realranks.ranks.kernel.gang import Gang, State
from realranks.ranks.kernel.interrupts import StopRequests, deferred
from realranks.ranks.kernel.job import Job, Run, collect, conclude
from realranks.ranks.kernel.links import Wires
from realranks.ranks.messages import Attached, decode_message, encode_message
from realranks.ranks.observed.meeting import ONLY_JOB
from realranks.ranks.observed.script_processes import Processes, StartedLink
from realranks.ranks.observed.script_ranks import RankSet
from realranks.ranks.private_sockets import reachable
from realranks.ranks.protocol import BlockingChannel

#: What surrounds the script in its process, which alone loads it.
_STARTING = "realranks.ranks.observed.process_starts:starting"
#: What torchrun alone sets, and where its ranks meet: a script that is started by hand finds none of it.
_BY_TORCHRUN = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_USE_AGENT_STORE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
#: Ranks that have ended well say which line issued what within this; the first time it takes a second of a core to load
#: the symbols. They stay no longer than `process_starts` says.
_LINES_SECONDS = 20.0
#: How long the script may take to end by itself when what is wrong with its ranks is known.
_LEAVE_SECONDS = 5.0
_LONGEST_ADDRESS = 100


@dataclass(frozen=True)
class ScriptRun:
    """The results of a script that starts its ranks itself.

    Attributes:
        sets: what came of each set of ranks that it has started, in order.
        script: how the script's own process ended, as the outcome of a single rank.
        started: how many processes it has started that could have become ranks.
    """

    sets: tuple[Outcome, ...]
    script: Outcome
    started: int


def run_script_once(
    job: Job,
    on_output: Sequence[Callable[[bytes], None] | None] = (None, None),
    method: str | None = None,
) -> ScriptRun:
    """Run a script in one process, unchanged, and watch the ranks it starts until all have ended.

    Args:
        job: the script, and the options of the run; its `around` surrounds each rank's part.
        on_output: what is given the bytes that the script and its processes write to standard output, and to standard
            error.
        method: how the script's process is started, as in `Gang`.

    Raises:
        GangError, LaunchError: the script's process cannot be started.
    """
    gang = Gang(1, init=False, method=method)
    try:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(_private_folder())
            stop = stack.enter_context(deferred())
            stack.enter_context(gang.watching_stop(stop))
            gang.wait_ready(stop)
            for buffer, tee in zip((gang.links[0].stdout, gang.links[0].stderr), on_output, strict=True):
                buffer.tee = tee
            script = Script(gang, folder, job)
            stack.callback(script.close)
            stack.callback(gang.stop)
            return script.run(stop)
    finally:
        gang.stop()


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="ddp-")
    if len(folder) > _LONGEST_ADDRESS - 20:  # the address of a socket has room for little more
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="ddp-", dir="/tmp")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _FirstRankJoined(Exception):
    """The first process of a set has joined: from now on the set is followed, not the script."""


class Script(Processes):
    """A script that runs: what it starts is let in, and followed as ranks."""

    def __init__(self, gang: Gang, folder: Path, job: Job) -> None:
        super().__init__(gang)
        self.job = job
        self.address = str(folder / "ranks")
        self.listener = socket.socket(socket.AF_UNIX)
        with reachable(self.address) as short:
            self.listener.bind(short)
        self.listener.listen(512)
        self.let_go = False
        self._links: list[StartedLink] = []
        self._crashes: dict[int, socket.socket] = {}
        self._began = time.monotonic()

    def close(self) -> None:
        """Give the descriptors back, when the gang is stopped."""
        self.listener.close()
        for link in self._links:
            link.channel.on_change = lambda: None
            link.close()

    def run(self, stop: StopRequests) -> ScriptRun:
        """Run it to its end."""
        self.gang.state = State.BUSY
        self.gang.watch(self.listener.fileno(), self._accept)
        environment = {name: os.environ.get(name) for name in _BY_TORCHRUN}
        around = _STARTING, {"address": self.address, "around": self.job.around, "environment": environment}
        job = dataclasses.replace(self.job, around=around)
        run = Run(job, ONLY_JOB, [self.own])
        self.own.forget_last_job()
        self.own.awaited = ONLY_JOB
        self.own.channel.send(encode_message(dataclasses.replace(job.work, around=around), ONLY_JOB))
        sets: list[Outcome] = []
        alone = _LauncherProcess(self)
        outcome = None
        while outcome is None:
            try:
                outcome = follow(alone, run, stop)
            except _FirstRankJoined:
                sets.append(self._follow_a_set(stop))
                run.progressed = run.seconds()
                if not sets[-1].ok or sets[-1].interrupted:
                    outcome = self._leave(alone, run)
        if not sets and any(link.failed for link in self.attached):
            sets.append(self._follow_a_set(stop))  # they have all failed before one of them joined
        return ScriptRun(tuple(sets), outcome, self.started)

    def _accept(self) -> None:
        wire, _ = self.listener.accept()
        channel = BlockingChannel(wire)
        message = channel.receive()
        hello = decode_message(Attached, message) if message is not None else None
        if hello is None:
            wire.close()
        elif hello.wire == "crashes":
            self._crashes[hello.pid] = wire
        else:
            link = StartedLink(self, channel.buffered(), self._crashes.pop(hello.pid), hello)
            self.known.add(hello.pid)
            self.pending.discard(hello.pid)
            self._links.append(link)
            self.attached.append(link)
            self.attached.sort(key=lambda each: each.order)
            self.gang.watch_link(link)
            link.read()
            if self.let_go:
                link.let_go()

    def ranks_have_come(self) -> bool:
        """Check whether a process has joined a process group, or one of `spawn`'s processes failed before that."""
        for link in self.attached:
            link.hear()
        return not self.let_go and any(
            link.joined_rank is not None or (link.index is not None and link.failed) for link in self.attached
        )

    def _follow_a_set(self, stop: StopRequests) -> Outcome:
        left = self.job.timeout - (time.monotonic() - self._began)
        job = dataclasses.replace(self.job, timeout=max(left, 0.0))
        ranks = RankSet(self)
        run = ranks.run = Run(job, ONLY_JOB, ranks.places, started_ns=ranks.started_ns())
        ranks.fill()
        outcome = follow(ranks, run, stop)
        if outcome.ok:
            statuses = ranks.get_statuses(_LINES_SECONDS, detail=True)
            recorded = {rank: status.records for rank, status in sorted(statuses.items())}
            outcome = dataclasses.replace(outcome, recorded=recorded)
        elif outcome.exits:
            # Its processes share the script's standard error.
            said = self.own.stderr.text()
            outcome = dataclasses.replace(
                outcome, stderr={**outcome.stderr, **dict.fromkeys(outcome.exits, said)}
            )
        self.let_go = not outcome.ok or outcome.interrupted
        ranks.dismiss()
        return outcome

    def _leave(self, alone: _LauncherProcess, run: Run) -> Outcome:
        """Let the script print its last messages after the verdict, then end it."""
        for link in self.attached:
            link.let_go()
        deadline = time.monotonic() + _LEAVE_SECONDS
        while run.running() and (left := deadline - time.monotonic()) > 0:
            self.pump(left)
            collect(run)
        for buffer in (self.own.stdout, self.own.stderr):
            buffer.drain()
        for late in run.running():
            run.killed.add(late.rank)
            late.kill()
        return conclude(alone, run)


class _LauncherProcess(Wires):
    """The script's own process, watched while none of its ranks is."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        self.links = [script.own]
        self.world_size = 1
        self.job = ONLY_JOB

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in.

        Raises:
            _FirstRankJoined: that was it.
        """
        self.script.pump(timeout)
        if self.script.ranks_have_come():
            raise _FirstRankJoined
