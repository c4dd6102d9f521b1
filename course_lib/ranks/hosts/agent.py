"""A host: the process that holds the ranks of one machine for a kernel elsewhere (`ddp-course host`).

It starts ranks through a forkserver of its own, as a kernel does, and passes on what ranks and kernel say to each
other. When its standard input closes, or the kernel has not been heard for a minute, it ends its ranks and itself.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

import psutil

from course_lib.ranks.codec import MalformedError
from course_lib.ranks.hosts import trial
from course_lib.ranks.hosts.wire import (
    GREETING,
    KERNEL_SECONDS,
    STACK,
    STDERR,
    STDOUT,
    WIRE,
    AskProcesses,
    Came,
    Do,
    EndTrial,
    HostFailed,
    HostReady,
    Listen,
    Part,
    Pass,
    Ping,
    Pong,
    Processes,
    RankEnded,
    RankStarted,
    StartRank,
    StartStore,
    StoreListens,
    Try,
    course_digest,
    network_name,
)
from course_lib.ranks.kernel.backend import MB_PER_RANK
from course_lib.ranks.kernel.event_loop import Wires
from course_lib.ranks.kernel.gpus import find_gpus
from course_lib.ranks.kernel.launcher import Launcher, LaunchError, warm_up
from course_lib.ranks.kernel.local_start import rank_settings, start_store
from course_lib.ranks.kernel.rank_handle import RankLink
from course_lib.ranks.messages import Body, decode_message, encode_message
from course_lib.ranks.protocol import Decoder, Message, ProtocolError
from course_lib.ranks.starting import GpuReport
from course_lib.versions import version

_READ_SIZE = 1 << 16


class HostedLink(RankLink):
    """A rank of this host: what it says and writes is passed on as it comes."""

    def __init__(self, wanted: StartRank, launcher: Launcher, add: Callable[[int, int, bytes], None]) -> None:
        self.key = wanted.key
        self.told_start = self.told_closed = False
        environment = {**rank_settings(wanted.config.init, wanted.interface), **wanted.environment}
        super().__init__(wanted.config.rank, launcher, wanted.config, environment)
        self._add = add
        for buffer, stream in ((self.stdout, STDOUT), (self.stderr, STDERR), (self.stack_dump, STACK)):
            buffer.tee = lambda content, stream=stream: add(self.key, stream, content)

    def read(self) -> None:
        """Pass on what has come on the wire, behind what the rank had written before."""
        content = b"".join(self.channel.chunks())
        if content:
            self.stdout.drain()
            self.stderr.drain()
            self._add(self.key, WIRE, content)
        if self.channel.closed:
            self.channel.on_change()


class Agent(Wires):
    """The host's own loop: what the kernel wants, and what its ranks say."""

    def __init__(self, out: int) -> None:
        super().__init__()
        self.out = out
        self.over = False
        self.heard = time.monotonic()
        self.launcher = warm_up()
        self.ranks: dict[int, HostedLink] = {}
        self.stores: dict[int, socket.socket] = {}
        self.trial: trial.Listener | None = None
        self._decoder = Decoder()
        self._parts: list[Part] = []
        self._content = bytearray()
        self._known: dict[bytes, int] = {}

    def serve(self) -> None:
        """Do what the kernel wants until it is gone."""
        self.watch(0, self._receive)
        self.watch(self.launcher.fileno(), self.launcher.pump)
        while not self.over and time.monotonic() - self.heard < KERNEL_SECONDS:
            self.pump(None)
            self._notice()
            self._pass_on()
            if self.launcher.gone:
                self.say(HostFailed("the process that starts ranks was killed, and the ranks with it"))
                return

    # -- to the kernel ------------------------------------------------------------------------------------------

    def say(self, body: Body) -> None:
        """Tell the kernel; it always reads, unless it is gone."""
        data = memoryview(encode_message(body).encode())
        while data and not self.over:
            _, writable, _ = select.select([], [self.out], [], KERNEL_SECONDS)
            try:
                data = data[os.write(self.out, data[: select.PIPE_BUF]) :] if writable else data[:0]
            except OSError:
                writable = []
            self.over = self.over or not writable

    def add(self, key: int, stream: int, content: bytes) -> None:
        """Put what a rank has said or written into the next frame; what others have said too is in it once."""
        start = self._known.get(content)
        if start is None:
            start = self._known[content] = len(self._content)
            self._content += content
        self._parts.append(Part(key, stream, start, len(content)))

    def _pass_on(self) -> None:
        closed = [link for link in self.ranks.values() if link.channel.closed and not link.told_closed]
        for link in closed:
            link.told_closed = True
        if self._parts or closed:
            content = bytes(self._content)
            self.say(Came(tuple(self._parts), tuple(link.key for link in closed), content))
            self._parts, self._known = [], {}
            self._content.clear()
        for link in [link for link in self.ranks.values() if link.exit_code is not None]:
            self._release(link)
            self.say(RankEnded(link.key, link.exit_code or 0))

    def _notice(self) -> None:
        """Which ranks have been started, or have ended, since the last time."""
        for link in self.ranks.values():
            failed = self.launcher.failures.get(link.token)
            if link.pid is not None and not link.told_start:
                link.told_start = True
                self.say(RankStarted(link.key, link.pid))
            elif failed is not None and not link.told_start:
                link.told_start = True
                self.say(HostFailed(failed, link.key))
            if link.exit_code is not None:
                link.read()
                for written in (link.stdout, link.stderr, link.stack_dump):
                    written.drain()

    def _release(self, link: HostedLink) -> None:
        del self.ranks[link.key]
        for fd in (*(buffer.fd for buffer in link.pipes), link.channel.fileno()):
            self.forget(fd)
        link.channel.on_change = lambda: None
        link.close()

    # -- from the kernel ----------------------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            chunk = os.read(0, _READ_SIZE)
            for message in self._decoder.feed(chunk):
                self._handle(message)
        except (OSError, ProtocolError, MalformedError):
            chunk = b""
        self.heard = time.monotonic()
        self.over = self.over or not chunk

    def _handle(self, message: Message) -> None:
        match message.kind:
            case Ping.kind:
                self.say(Pong(decode_message(Ping, message).number, time.time_ns()))
            case Pass.kind:
                passed = decode_message(Pass, message)
                for key in passed.keys:
                    if key in self.ranks:
                        self.ranks[key].channel.send_encoded(passed.content)
            case Do.kind:
                self._do(decode_message(Do, message))
            case StartRank.kind:
                self._start_rank(decode_message(StartRank, message))
            case StartStore.kind:
                self._start_store(decode_message(StartStore, message))
            case AskProcesses.kind:
                self._tell_of_processes(decode_message(AskProcesses, message))
            case Listen.kind:
                self.trial = trial.Listener(decode_message(Listen, message).word)
                self.say(self.trial.listening)
            case Try.kind:
                self.say(trial.tried(decode_message(Try, message)))
            case EndTrial.kind if self.trial is not None:
                self.trial.close()

    def _do(self, wanted: Do) -> None:
        if wanted.key in self.stores:
            self.stores.pop(wanted.key).close()
        link = self.ranks.get(wanted.key)
        if link is None:
            return
        match wanted.what:
            case "signal":
                link.signal(wanted.number)
            case "interrupt":
                link.interrupt()
            case "kill":
                link.kill()
            case "dismiss":
                link.dismiss()
            case "close":
                link.channel.close()

    def _start_rank(self, wanted: StartRank) -> None:
        try:
            link = self.ranks[wanted.key] = HostedLink(wanted, self.launcher, self.add)
        except (OSError, LaunchError) as error:
            self.say(HostFailed(str(error), wanted.key))
            self.say(RankEnded(wanted.key, 1))
        else:
            self.watch_link(link)

    def _start_store(self, wanted: StartStore) -> None:
        try:
            port, self.stores[wanted.key] = start_store(self.launcher, wanted.address)
        except (OSError, LaunchError) as error:
            self.say(HostFailed(str(error), wanted.key))
        else:
            self.say(StoreListens(wanted.key, port))

    def _tell_of_processes(self, wanted: AskProcesses) -> None:
        links = [self.ranks[key] for key in wanted.keys if key in self.ranks]
        seconds = {link.key: link.processor_seconds() for link in links}
        stopped = tuple(link.key for link in links if link.is_stopped())
        self.say(Processes(wanted.number, seconds, stopped))


def _about_this_host(launcher: Launcher) -> HostReady:
    ready = launcher.wait_ready()
    gpus = find_gpus(launcher, os.environ)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return HostReady(
        pid=os.getpid(),
        name=platform.node(),
        network=network_name(),
        addresses=trial.addresses(),
        digest=course_digest(),
        course=version("ddp-course"),
        torch=ready.torch,
        python=platform.python_version(),
        cores=cores,
        free_mb=int(psutil.virtual_memory().available / 1e6),
        mb_per_rank=MB_PER_RANK[launcher.method],
        gpus=GpuReport(gpus.gpus, gpus.counted, gpus.problem, gpus.built, gpus.nccl),
        visible=gpus.visible,
    )


def main() -> int:
    """Be a host for who is at the other end of standard input and output; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever prints goes to standard error: standard output is the wire.
    out = os.dup(1)
    os.dup2(2, 1)
    os.write(out, GREETING)
    try:
        agent = Agent(out)
        with contextlib.suppress(OSError):
            os.chdir(os.path.expanduser("~")) if os.getcwd() == os.sep else None
        agent.say(_about_this_host(agent.launcher))
    except (LaunchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    try:
        agent.serve()
    finally:
        agent.launcher.close()
    return 0
