"""Ranks as they are held from outside: `Link` is one of them, `Wires` a set of them, driven from one thread.

Whoever holds ranks needs these, and most need no gang: a host on another machine, the watcher of a job that `torchrun`
started, the doctor on a script that starts its ranks itself. Nothing here polls: every wait is for a file descriptor.
"""

from __future__ import annotations

import abc
import contextlib
import linecache
import os
import re
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import psutil

from realranks.outcome.places import Frame, is_learners
from realranks.ranks.codec import MalformedError
from realranks.ranks.kernel.interrupts import StopRequests
from realranks.ranks.kernel.launcher import Launcher
from realranks.ranks.kernel.output import Output, OutputBuffer
from realranks.ranks.messages import (
    Body,
    Cannot,
    JobReply,
    Picture,
    Ready,
    StatusReply,
    StatusRequest,
    Stop,
    decode_message,
    encode_message,
    number_of,
)
from realranks.ranks.protocol import BufferedChannel, Channel, Message
from realranks.ranks.starting import RankConfig
from realranks.ranks.status import RankStatus

_Reply = TypeVar("_Reply", bound=Body)

_LONGEST_WAIT = 1.0
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

    def main_stack(self) -> tuple[Frame, ...]:
        """Return the learner's frames of the main thread from faulthandler's text, the outermost first."""
        frames = []
        dump = self.stack_dump.text()
        for thread in re.split(r"\n\s*\n|\n(?=Thread 0x|Current thread 0x)", dump):
            if self.outermost in thread:
                for file, line, function in re.findall(r'File "(.*?)", line (\d+) in (\S+)', thread):
                    if is_learners(file):
                        source = linecache.getline(file, int(line)).strip()
                        frames.append(Frame(file, int(line), function, source))
        return tuple(reversed(frames))

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


class Wires:
    """Ranks that can be listened to and asked."""

    links: Sequence[Link]
    world_size: int

    def __init__(self, lock: threading.RLock | None = None) -> None:
        self.job = 0
        self._lock = lock or threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._watched: set[int] = set()

    def watch(self, fd: int, on_ready: Callable[[], object]) -> None:
        """Have `on_ready` called by `pump` when there is something to read; it returns False at the stream's end."""
        self._selector.register(fd, selectors.EVENT_READ, (on_ready, None))
        self._watched.add(fd)

    def watch_channel(self, channel: BufferedChannel, read: Callable[[], object]) -> None:
        """Have `read` called by `pump` when something has come on the channel, and what waits to be sent written."""
        self.watch(channel.fileno(), read)
        channel.on_change = lambda: self._changed(channel, read)

    def watch_link(self, link: Link) -> None:
        """Listen to a rank on this machine: its wire, and what it writes."""
        assert isinstance(link.channel, BufferedChannel)
        self.watch_channel(link.channel, link.read)
        for buffer in (link.stdout, link.stderr, link.stack_dump):
            if isinstance(buffer, OutputBuffer):
                self.watch(buffer.fd, buffer.read)

    def _changed(self, channel: BufferedChannel, read: Callable[[], object]) -> None:
        """Update the selector after a channel got or lost pending output, or was closed."""
        fd = channel.fileno()
        if channel.closed:
            self.forget(fd)
        elif fd in self._watched and channel.wants_write:
            self._selector.modify(fd, selectors.EVENT_READ | selectors.EVENT_WRITE, (read, channel.flush))
        elif fd in self._watched:
            self._selector.modify(fd, selectors.EVENT_READ, (read, None))

    def forget(self, fd: int) -> None:
        """Listen to this descriptor no more."""
        if fd in self._watched:
            self._watched.discard(fd)
            self._selector.unregister(fd)

    @contextlib.contextmanager
    def watching_stop(self, stop: StopRequests) -> Iterator[None]:
        """Let a press of the stop button end a wait at once within this block."""
        if stop.fileno() in self._watched:
            yield
            return
        self.watch(stop.fileno(), stop.take)
        try:
            yield
        finally:
            # A gang that has been stopped has closed its selector.
            with contextlib.suppress(KeyError, RuntimeError, ValueError):
                self.forget(stop.fileno())

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        # Never for long: with several gangs, another thread may have taken in what the launcher said.
        longest = _LONGEST_WAIT if timeout is None else min(max(0.0, timeout), _LONGEST_WAIT)
        for key, events in self._selector.select(longest):
            read, write = key.data
            if events & selectors.EVENT_WRITE and write is not None:
                write()
            if events & selectors.EVENT_READ and read() is False:
                self.forget(key.fd)  # the pipe's other end is closed

    def ask(
        self,
        question: Body,
        reply: type[_Reply],
        timeout: float,
        ranks: Sequence[int] | None = None,
        stop: StopRequests | None = None,
        enough: Callable[[Sequence[Link]], bool] | None = None,
    ) -> dict[int, _Reply]:
        """Send a message to ranks and collect their replies; ranks that do not answer in time are left out.

        So are those whose reply cannot be read: the learner's code may have spoken in the rank's name.

        A press of the stop button ends the waiting too (given `stop`), and so does `enough`, asked after each event
        about the ranks that may still answer.
        """
        self.job += 1
        job = self.job
        links = [link for link in self.links if link.alive and (ranks is None or link.rank in ranks)]
        encoded = encode_message(question, job).encode()
        for link in links:
            link.channel.send_encoded(encoded)
        answers: dict[int, _Reply | Cannot] = {}
        deadline = time.monotonic() + timeout
        while True:
            for link in links:
                if not isinstance(answers.get(link.rank), reply) and (came := _answer(link, reply, job)):
                    answers[link.rank] = came
            left = deadline - time.monotonic()
            silent = [link for link in links if link.rank not in answers and link.answers]
            if (
                left <= 0
                or not silent
                or (stop is not None and stop.pressed)
                or (enough is not None and enough(silent))
            ):
                return {rank: answer for rank, answer in answers.items() if isinstance(answer, reply)}
            self.pump(left)

    def silence_notice(self) -> str:
        """Name the machines that have been silent for some seconds, in sentences; '' if none is."""
        return ""

    def get_statuses(
        self,
        timeout: float = 1.0,
        detail: bool = False,
        enough: Callable[[Sequence[Link]], bool] | None = None,
    ) -> dict[int, RankStatus]:
        """Ask every rank for its status. `detail`: see `control_thread.get_status`; `enough`: see `ask`."""
        with self._lock:
            replies = self.ask(StatusRequest(detail=detail), StatusReply, timeout, enough=enough)
            return {
                link.rank: link.status_of(replies[link.rank]) for link in self.links if link.rank in replies
            }


def _answer(link: Link, reply: type[_Reply], job: int) -> _Reply | Cannot | None:
    """Take a rank's answer, if there is one: its reply, or `Cannot`, also in place of a malformed reply."""
    try:
        return link.take(reply, job) or link.take(Cannot, job)
    except MalformedError:
        return Cannot("its reply cannot be read")
