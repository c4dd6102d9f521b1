"""A host: the process that holds the ranks of one machine for a kernel elsewhere (`ddp-course host`).

It starts ranks through a forkserver of its own, as a kernel does, and passes on what ranks and kernel say to each
other. When its standard input closes, or the kernel has not been heard for a minute, it ends its ranks and itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import assert_never

import psutil

from realranks.ranks.codec import MalformedError
from realranks.ranks.hosts import trial
from realranks.ranks.hosts.wire import (
    GREETING,
    KERNEL_SECONDS,
    Action,
    AskProcess,
    Chunk,
    EndProbe,
    Forward,
    HostFailed,
    HostReady,
    OpenProbePort,
    Ping,
    Pong,
    ProbeAddresses,
    ProcessStatus,
    RankCommand,
    RankEnded,
    RankOutput,
    RankStarted,
    StartRank,
    StartStore,
    StoreListens,
    Stream,
    code_digests,
    network_name,
)
from realranks.ranks.kernel.backend import MB_PER_RANK
from realranks.ranks.kernel.gpus import find_gpus
from realranks.ranks.kernel.launcher import Launcher, LaunchError, warm_up
from realranks.ranks.kernel.links import RankLink, Wires
from realranks.ranks.kernel.local_start import rank_settings, start_store
from realranks.ranks.messages import Body, decode_message, encode_message, number_of
from realranks.ranks.protocol import Decoder, Message, ProtocolError
from realranks.ranks.starting import GpuReport
from realranks.versions import own

_READ_SIZE = 1 << 16


class HostedLink(RankLink):
    """A rank of this host: what it says and writes is passed on as it comes."""

    def __init__(
        self, wanted: StartRank, launcher: Launcher, queue_output: Callable[[int, Stream, bytes], None]
    ) -> None:
        self.key = wanted.key
        self.start_reported = self.close_reported = False
        environment = {**rank_settings(wanted.config.init, wanted.interface), **wanted.environment}
        super().__init__(wanted.config.rank, launcher, wanted.config, environment)
        self._queue_output = queue_output
        streams = (Stream.STDOUT, Stream.STDERR, Stream.STACK)
        for buffer, stream in zip(self.pipes, streams, strict=True):
            buffer.tee = lambda content, stream=stream: queue_output(self.key, stream, content)

    def read(self) -> None:
        """Forward what has come on the wire, behind what the rank had written before."""
        content = b"".join(self.channel.chunks())
        if content:
            self.stdout.drain()
            self.stderr.drain()
            self._queue_output(self.key, Stream.WIRE, content)
        if self.channel.closed:
            self.channel.on_change()


class Agent(Wires):
    """The host's own loop: what the kernel wants, and what its ranks say."""

    def __init__(self, out: int) -> None:
        super().__init__()
        self.out = out
        self.finished = False
        self.last_heard = time.monotonic()
        self.launcher = warm_up()
        self.ranks: dict[int, HostedLink] = {}
        self.stores: dict[int, socket.socket] = {}
        self.trial: trial.Listener | None = None
        self._decoder = Decoder()
        self._parts: list[Chunk] = []
        self._content = bytearray()
        self._known: dict[bytes, int] = {}

    def serve(self) -> None:
        """Serve the kernel until it is gone."""
        self.watch(0, self._receive)
        self.watch(self.launcher.fileno(), self.launcher.pump)
        while not self.finished and time.monotonic() - self.last_heard < KERNEL_SECONDS:
            self.pump(None)
            self._notice()
            self._flush_output()
            if self.launcher.gone:
                self.say(HostFailed("the process that starts ranks was killed, and the ranks with it"))
                return

    # -- to the kernel ------------------------------------------------------------------------------------------

    def say(self, body: Body, number: int = 0) -> None:
        """Tell the kernel; it always reads, unless it is gone."""
        data = memoryview(encode_message(body, number).encode())
        while data and not self.finished:
            _, writable, _ = select.select([], [self.out], [], KERNEL_SECONDS)
            try:
                data = data[os.write(self.out, data[: select.PIPE_BUF]) :] if writable else data[:0]
            except OSError:
                writable = []
            self.finished = self.finished or not writable

    def queue_output(self, key: int, stream: Stream, content: bytes) -> None:
        """Put what a rank has said or written into the next frame; what others have said too is in it once."""
        start = self._known.get(content)
        if start is None:
            start = self._known[content] = len(self._content)
            self._content += content
        self._parts.append(Chunk(key, stream, start, len(content)))

    def _flush_output(self) -> None:
        closed = [link for link in self.ranks.values() if link.channel.closed and not link.close_reported]
        for link in closed:
            link.close_reported = True
        if self._parts or closed:
            content = bytes(self._content)
            self.say(RankOutput(tuple(self._parts), tuple(link.key for link in closed), content))
            self._parts, self._known = [], {}
            self._content.clear()
        for link in [link for link in self.ranks.values() if link.exit_code is not None]:
            self._release(link)
            self.say(RankEnded(link.key, link.exit_code or 0))

    def _notice(self) -> None:
        """Report ranks that have started or ended since the last call."""
        for link in self.ranks.values():
            failed = self.launcher.failures.get(link.token)
            if link.pid is not None and not link.start_reported:
                link.start_reported = True
                self.say(RankStarted(link.key, link.pid))
            elif failed is not None and not link.start_reported:
                link.start_reported = True
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
        self.last_heard = time.monotonic()
        self.finished = self.finished or not chunk

    def _handle(self, message: Message) -> None:
        match message.kind:
            case Ping.kind:
                self.say(Pong(time.time_ns()), number_of(message))
            case Forward.kind:
                passed = decode_message(Forward, message)
                for key in passed.keys:
                    if key in self.ranks:
                        self.ranks[key].channel.send_encoded(passed.content)
            case RankCommand.kind:
                self._do(decode_message(RankCommand, message))
            case StartRank.kind:
                self._start_rank(decode_message(StartRank, message))
            case StartStore.kind:
                self._start_store(decode_message(StartStore, message))
            case AskProcess.kind:
                self.say(self._process_status(decode_message(AskProcess, message).key), number_of(message))
            case OpenProbePort.kind:
                self.trial = trial.Listener(decode_message(OpenProbePort, message).word)
                self.say(self.trial.listening)
            case ProbeAddresses.kind:
                self.say(trial.tried(decode_message(ProbeAddresses, message)))
            case EndProbe.kind if self.trial is not None:
                self.trial.close()

    def _do(self, wanted: RankCommand) -> None:
        if wanted.key in self.stores:
            self.stores.pop(wanted.key).close()
        link = self.ranks.get(wanted.key)
        if link is None:
            return
        match wanted.action:
            case Action.SIGNAL:
                link.signal(wanted.number)
            case Action.INTERRUPT:
                link.interrupt()
            case Action.KILL:
                link.kill()
            case Action.DISMISS:
                link.dismiss()
            case Action.CLOSE:
                link.channel.close()
            case _:
                assert_never(wanted.action)

    def _start_rank(self, wanted: StartRank) -> None:
        try:
            link = self.ranks[wanted.key] = HostedLink(wanted, self.launcher, self.queue_output)
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
            self.say(StoreListens(port), wanted.key)

    def _process_status(self, key: int) -> ProcessStatus:
        link = self.ranks.get(key)
        return ProcessStatus() if link is None else ProcessStatus(link.processor_seconds(), link.is_stopped())


def _about_this_host(launcher: Launcher) -> HostReady:
    ready = launcher.wait_ready()
    gpus = find_gpus(launcher, os.environ)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return HostReady(
        pid=os.getpid(),
        network=network_name(),
        addresses=trial.addresses(),
        code=code_digests(),
        version=" ".join(own()),
        torch=ready.torch,
        cores=cores,
        free_mb=int(psutil.virtual_memory().available / 1e6),
        mb_per_rank=MB_PER_RANK[launcher.method],
        gpus=GpuReport(gpus.gpus, gpus.counted, gpus.problem, gpus.built, gpus.nccl),
        visible=gpus.visible,
    )


def main(kind: type[Agent] | None = None) -> int:
    """Be a host for who is at the other end of standard input and output; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever prints goes to standard error: standard output is the wire.
    out = os.dup(1)
    os.dup2(2, 1)
    os.write(out, GREETING)
    try:
        agent = (kind or Agent)(out)
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
