"""One rank as it is held from outside: its wire, its output pipes, its process."""

from __future__ import annotations

import abc
import contextlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import TypeVar

import psutil

from realranks.ranks.codec import MalformedError
from realranks.ranks.kernel.launcher import Launcher
from realranks.ranks.kernel.output import Output, OutputBuffer
from realranks.ranks.messages import (
    Body,
    JobReply,
    Picture,
    Ready,
    StatusReply,
    Stop,
    decode_message,
    encode_message,
    number_of,
)
from realranks.ranks.protocol import BufferedChannel, Channel, Message
from realranks.ranks.starting import RankConfig
from realranks.ranks.status import RankStatus

_Reply = TypeVar("_Reply", bound=Body)

#: How long a rank may take to close the learner's files when it is dismissed.
LEAVE_SECONDS = 1.0
#: The same where it has a GPU to give back. The kernel does not wait for it, but its memory is missing meanwhile.
LEAVE_SECONDS_ON_GPUS = 5.0


class Link(abc.ABC):
    """One rank as it is held from outside: its wire, what it writes, its process."""

    #: What the outermost frame of the main thread says in a dump of its stack.
    outermost = "in _run_module_as_main"
    #: What the rank has last told of itself (`RankStatus.uses_gpus`); until it has, whether it was given a GPU.
    uses_gpus = False

    #: Its process is on this machine.
    here = True

    def __init__(self, rank: int, channel: Channel, buffers: Sequence[Output]) -> None:
        self.rank = rank
        self.channel = channel
        self.stdout, self.stderr, self.stack_dump = buffers
        self.ready: Ready | None = None
        self.inbox: list[Message] = []
        self.pictures: list[bytes] = []
        self.killed_by_course = False
        #: The job whose `JobReply` may come; `unasked` turns true when one comes for another job. A rank answers each
        #: job once, so what it runs has then spoken in its name.
        self.awaited: int | None = None
        self.unasked = False

    @property
    @abc.abstractmethod
    def pid(self) -> int | None:
        """The process id, once it is known."""

    @property
    @abc.abstractmethod
    def exit_code(self) -> int | None:
        """The exit code: None while the process lives, negative for a signal."""

    @abc.abstractmethod
    def kill(self) -> None:
        """Kill the process and everything it started; its peers' exits are not its fault."""

    @property
    def alive(self) -> bool:
        """True while the process lives."""
        return self.exit_code is None

    @property
    def vanished(self) -> bool:
        """True where its machine is gone: its peers may wait for it for ever."""
        return False

    @property
    def is_unresponsive(self) -> bool:
        """True while its machine does not answer, so that nothing can be learned of its process."""
        return False

    @property
    def host_name(self) -> str:
        """The machine that it is on; empty for this one."""
        return ""

    @property
    def answers(self) -> bool:
        """True while a reply can still come: the process lives and its wire is open."""
        return self.alive and not self.channel.closed

    def read(self) -> None:
        """Take in messages and output that have arrived."""
        for message in self.channel.receive():
            if message.kind == Ready.kind:
                self._started(message)
            elif message.kind == Picture.kind:
                self.pictures.append(message.blob)
            elif message.kind == JobReply.kind and number_of(message) != self.awaited:
                self.unasked = True
            else:
                if message.kind == JobReply.kind:
                    self.awaited = None
                self.inbox.append(message)

    def _started(self, message: Message) -> None:
        try:
            self.ready = decode_message(Ready, message)
        except MalformedError:
            self.channel.mark_closed()

    def forget_last_job(self) -> None:
        """Make room for what the next job writes and answers."""
        for buffer in (self.stdout, self.stderr, self.stack_dump):
            buffer.clear()
        self.pictures.clear()
        self.inbox.clear()

    def take(self, kind: type[_Reply], job: int) -> _Reply | None:
        """Take the reply of this kind to this job, if it has arrived; drop older replies.

        Raises:
            MalformedError: the reply cannot be read.
        """
        for message in list(self.inbox):
            if message.kind == kind.kind:
                self.inbox.remove(message)
                if number_of(message) == job:
                    return decode_message(kind, message)
        return None

    def status_of(self, reply: StatusReply) -> RankStatus:
        """Return the reported status with the rank's number."""
        self.uses_gpus = reply.status.uses_gpus
        return reply.status.of_rank(self.rank)

    def take_all(self, kind: type[_Reply]) -> list[_Reply]:
        """Take all messages of this kind that have arrived, whichever job they belong to.

        Raises:
            MalformedError: one of them cannot be read.
        """
        found = [message for message in self.inbox if message.kind == kind.kind]
        for message in found:
            self.inbox.remove(message)
        return [decode_message(kind, message) for message in found]

    def said_how(self) -> Message | None:
        """Return the message with the result of the rank's job if it has arrived and was not taken yet."""
        return next((message for message in self.inbox if message.kind == JobReply.kind), None)

    def signal(self, number: int) -> None:
        """Send a signal to the rank's process."""
        if self.alive and self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def interrupt(self) -> None:
        """Send SIGINT to the rank and its children, as Ctrl-C does in a terminal: `os.system` waits for its child."""
        if self.alive and self.pid is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGINT)

    def processor_seconds(self) -> float:
        """Return the CPU seconds that the rank's process has used; 0 if it is gone."""
        if self.pid is not None:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(self.pid).cpu_times()
                return float(times.user + times.system)
        return 0.0

    def is_stopped(self) -> bool:
        """Check whether a signal (SIGSTOP, SIGTSTP) has stopped the process."""
        try:
            return self.pid is not None and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def close(self) -> None:
        """Give the descriptors back. The rank sees the end of its wire and leaves by itself."""
        self.channel.close()
        for buffer in (self.stdout, self.stderr, self.stack_dump):
            buffer.close()


class GangLink(Link):
    """A rank of a gang, which has started it and ends it.

    Attributes:
        token: by which who starts it knows it.
    """

    token: int

    @abc.abstractmethod
    def dismiss(self) -> None:
        """Ask the rank to close its files and leave, and see to it that it does."""


class RankLink(GangLink):
    """A rank of a gang on this machine: its process is the launcher's child."""

    def __init__(
        self, rank: int, launcher: Launcher, config: RankConfig, environment: Mapping[str, str]
    ) -> None:
        self.launcher = launcher
        mine, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(3)]
        with theirs:
            fds = [theirs.fileno(), *(write for _, write in pipes)]
            try:
                self.token = launcher.start(config, environment, fds)
            finally:
                for _, write in pipes:
                    os.close(write)
        self.channel: BufferedChannel
        self.pipes = [OutputBuffer(read) for read, _ in pipes]
        super().__init__(rank, BufferedChannel(mine), self.pipes)
        self.uses_gpus = config.gpu is not None

    @property
    def pid(self) -> int | None:
        """The process id, once the launcher has told it."""
        return self.launcher.pids.get(self.token)

    @property
    def exit_code(self) -> int | None:
        """The exit code: None while the process lives, negative for a signal."""
        launcher = self.launcher
        if self.token in launcher.failures:
            return 1
        pid = launcher.pids.get(self.token)
        if pid is not None and pid in launcher.exits:
            return launcher.exits[pid]
        return -9 if launcher.gone else None

    def kill(self) -> None:
        """Kill the process and everything it started; its peers' exits are not its fault."""
        self.killed_by_course = True
        if self.pid is not None and self.alive:
            self.launcher.kill(self.pid)

    def dismiss(self) -> None:
        """Ask the rank to close its files and leave, and see to it that it does."""
        self.killed_by_course = True
        if self.pid is not None and self.alive:
            self.channel.send(encode_message(Stop()))
            self.launcher.kill(self.pid, after=LEAVE_SECONDS_ON_GPUS if self.uses_gpus else LEAVE_SECONDS)
