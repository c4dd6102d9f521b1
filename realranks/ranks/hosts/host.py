"""The kernel's side of one host: the command that reaches it, what it says, and when it is gone."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from realranks import own_code
from realranks.ranks.codec import MalformedError
from realranks.ranks.hosts.wire import (
    GREETING,
    AskProcess,
    Forward,
    HostFailed,
    HostReady,
    Ping,
    Pong,
    ProcessStatus,
    RankEnded,
    RankOutput,
    RankStarted,
    Stream,
)
from realranks.ranks.messages import Body, decode_message, encode_message, number_of
from realranks.ranks.protocol import BufferedChannel, Message

_Answer = TypeVar("_Answer", bound=Body)

#: Seconds without a sign of life after which that is said, and after which a host counts as gone. After a cut of 8 s
#: TCP may let as long pass again until it tries to send: it doubles its waits.
SILENT_SECONDS, GONE_SECONDS = 4.0, 20.0
_PROCESS_SECONDS = 2.0
_MAX_BEFORE_GREETING = 1 << 16
#: Without the last option an ssh whose network is cut outlives its kernel by a quarter of an hour.
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 {}"
#: What may be the name of a host: it becomes a word of a command, and never one of its options.
_NAME = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:@%/\[\]-]*\Z")
_numbers = itertools.count(1)


class Receiver(Protocol):
    """A rank of a host, as far as that has to know it."""

    def receive(self, stream: Stream, content: bytes) -> None:
        """Take what has come on one of its streams, such as `Stream.WIRE`."""

    def lose_wire(self) -> None:
        """Mark the wire as lost: nothing more comes from it."""


class HostError(RuntimeError):
    """A host cannot be used; the message is one clear line."""


def command_for(name: str, via: str | None) -> list[str]:
    """Split the command that starts the host process on a machine into words.

    Args:
        name: of the machine. via: the command that reaches it, with `{}` for the name; `ssh` where there is none.
            What starts a host there is appended (`own_code.command`), unless it names that itself, and Slurm's `srun`
            is not to keep what is no whole line.

    Raises:
        HostError: this is no name, or no command.
    """
    if not _NAME.match(name):
        raise HostError(f"{name!r} is no name of a host.")
    try:
        words = shlex.split(via or _SSH)
    except ValueError as error:
        raise HostError(f"--via {via}: {error}.") from None
    if not any("{}" in word for word in words):
        raise HostError(f"--via {via}: say with {{}} where the host's name belongs, as in --via 'ssh {{}}'.")
    ours = (*own_code.folders(), *own_code.COMMANDS)
    if not any(each in word for word in words for each in ours):
        words += [own_code.command(), "host"]
    for place in [place for place, word in enumerate(words) if os.path.basename(word) == "srun"]:
        words.insert(place + 1, "--unbuffered")
    return [word.replace("{}", name) for word in words]


class _HostChannel(BufferedChannel):
    """The wire to a host; what a login prints before the host's greeting is no part of it."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.before = b""
        self.moved = time.monotonic()
        self._greeted = False

    def flush(self) -> None:
        # What fits into an empty buffer need not be read by anybody.
        full, before = self._announced, len(self._outgoing)
        super().flush()
        if full and len(self._outgoing) < before:
            self.moved = time.monotonic()

    def chunks(self) -> Iterator[bytes]:
        for chunk in super().chunks():
            self.moved = time.monotonic()
            if self._greeted:
                yield chunk
                continue
            self.before, found, rest = (self.before + chunk).partition(GREETING)
            self._greeted = bool(found)
            if rest:
                yield rest
            elif len(self.before) > _MAX_BEFORE_GREETING:
                self.closed = True


class Host:
    """One machine that holds ranks for this kernel.

    Attributes:
        name: as it was given.
        ready: what it has said of itself; None until it has.
        gone: why it is no more, one clause; empty while it is there.
        links: its ranks, by the number by which both sides know them.
        pids, exits, failures: of its ranks, by that number.
        clock_offset_ns: how far its clock is ahead of this machine's.
        clock_error_ns: by how much that may be wrong.
    """

    def __init__(self, name: str, via: str | None = None) -> None:
        """Start the command that reaches the machine (see `command_for`); returns at once.

        Raises:
            HostError: there is no such command.
        """
        command = command_for(name, via)
        self.name = name
        self.ready: HostReady | None = None
        self.lost_reason = ""
        self.links: dict[int, Receiver] = {}
        self.pids: dict[int, int] = {}
        self.exits: dict[int, int] = {}
        self.failures: dict[int, str] = {}
        self.clock_offset_ns = 0
        self.clock_error_ns = 0
        self._answers: list[Message] = []
        self._passing: tuple[list[int], bytes] | None = None
        self._lock = threading.RLock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the host
        self._pinged: tuple[int, float, int] | None = None  # number, monotonic seconds, time in ns
        mine, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._log,
                    start_new_session=True,
                )
            except OSError as error:
                raise HostError(f"{name}: {command[0]}: {error.strerror or error}.") from None
        self.channel = _HostChannel(mine)
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # A child that the kernel forks must not hold the wire open: the host would not see the kernel die.
        with contextlib.suppress(OSError):
            self.channel.sock.close()

    def stderr_tail(self) -> str:
        """Return the last lines that the command printed, for error messages."""
        text = self.channel.before.decode(errors="replace")
        with contextlib.suppress(OSError, ValueError):
            self._log.seek(0)
            text += self._log.read().decode(errors="replace")
        lines = [line.strip() for line in text.strip().splitlines()[-3:]]
        return " / ".join(lines).removesuffix(".") or "it printed nothing"

    # -- what it says -------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Take in what the host has said; never blocks."""
        with self._lock:
            try:
                for message in self.channel.receive():
                    self._heard(message)
            except MalformedError as error:
                self.mark_lost(
                    f"its messages cannot be read; its course files may differ from those here ({error})"
                )
            if self.channel.closed:
                self.mark_lost(self._why_closed())

    def _why_closed(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # what it has printed is complete then
        return f"its connection has ended: {self.stderr_tail()}"

    def _heard(self, message: Message) -> None:
        match message.kind:
            case RankOutput.kind:
                self._deliver(decode_message(RankOutput, message))
            case RankStarted.kind:
                started = decode_message(RankStarted, message)
                self.pids[started.key] = started.pid
            case RankEnded.kind:
                ended = decode_message(RankEnded, message)
                self.exits[ended.key] = ended.code
            case HostFailed.kind:
                failed = decode_message(HostFailed, message)
                if not failed.key:
                    self.mark_lost(failed.reason)
                self.failures[failed.key] = failed.reason
            case HostReady.kind:
                self.ready = decode_message(HostReady, message)
            case Pong.kind:
                self._note_clock(number_of(message), decode_message(Pong, message))
            case _:
                self._answers.append(message)

    def _deliver(self, came: RankOutput) -> None:
        for part in came.parts:
            link = self.links.get(part.key)
            content = came.content[part.start : part.start + part.size]
            if link is not None:
                link.receive(part.stream, content)
        for key in came.closed:
            if key in self.links:
                self.links[key].lose_wire()

    def _note_clock(self, number: int, pong: Pong) -> None:
        if self._pinged is None or self._pinged[0] != number:
            return
        sent, now = self._pinged[2], time.time_ns()
        self._pinged = None
        if not self.clock_error_ns or (now - sent) // 2 <= self.clock_error_ns:
            self.clock_error_ns = max(1, (now - sent) // 2)
            self.clock_offset_ns = pong.time_ns - (sent + now) // 2

    # -- what it is asked ---------------------------------------------------------------------------------------

    def say(self, body: Body, number: int = 0) -> None:
        """Tell the host, if it is still there; never blocks. The answer has the same `number`."""
        with self._lock:
            self.flush()
            if not self.channel.closed:
                self.channel.send_encoded(encode_message(body, number).encode())

    def pass_to(self, key: int, message: bytes) -> None:
        """Have these bytes passed to a rank; the same bytes for several ranks, one after the other, travel once."""
        with self._lock:
            if self._passing is not None and self._passing[1] is not message:
                self.flush()
            if self._passing is None:
                self._passing = [], message
            self._passing[0].append(key)

    def flush(self) -> None:
        """Send what waits to be passed to ranks."""
        with self._lock:
            passing, self._passing = self._passing, None
            if passing is not None and not self.channel.closed:
                self.channel.send_encoded(encode_message(Forward(tuple(passing[0]), passing[1])).encode())

    def answer(self, kind: type[_Answer], seconds: float) -> _Answer:
        """Wait for an answer of this kind.

        Raises:
            HostError: the host is gone, or does not answer in time.
        """
        found = self.wait(lambda: self.take(kind), seconds)
        if found is None:
            raise HostError(f"{self.name}: {self.lost_reason or f'no answer within {seconds:g} s'}.")
        return found

    def take(self, kind: type[_Answer], number: int = 0) -> _Answer | None:
        """Take the answer of this kind to this question, if it has arrived; drop late answers to other questions."""
        for message in list(self._answers):
            if message.kind == kind.kind:
                self._answers.remove(message)
                if number_of(message) == number:
                    return decode_message(kind, message)
        return None

    def wait(self, found: Callable[[], _Answer | None], seconds: float) -> _Answer | None:
        """Read until `found` gives something; None when that is not so in time, or the host is gone."""
        deadline = time.monotonic() + seconds
        self.flush()
        while True:
            self.read()
            value = found()
            left = deadline - time.monotonic()
            if value is not None or left <= 0 or self.lost_reason:
                return value
            with contextlib.suppress(OSError, ValueError):
                writes = [self.channel] if self.channel.wants_write else []
                _, writable, _ = select.select([self.channel], writes, [], min(left, 1.0))
                if writable:
                    self.channel.flush()

    def ask_process(self, key: int) -> ProcessStatus:
        """Ask how the process of a rank is; a host that does not answer says nothing of it."""
        number = next(_numbers)
        if self.is_unresponsive:
            return ProcessStatus()
        self.say(AskProcess(key), number)
        return self.wait(lambda: self.take(ProcessStatus, number), _PROCESS_SECONDS) or ProcessStatus()

    # -- is it there? -------------------------------------------------------------------------------------------

    def ping(self) -> None:
        """Ask for a sign of life, unless one is being waited for."""
        with self._lock:
            if self._pinged is None and not self.lost_reason:
                self._pinged = (next(_numbers), time.monotonic(), time.time_ns())
                self.say(Ping(), self._pinged[0])

    def silent_seconds(self) -> float:
        """Return for how long the host has been silent; bytes that arrive, or room to send, are signs of life."""
        pinged = self._pinged
        if pinged is None or self.lost_reason:
            return 0.0
        return time.monotonic() - max(pinged[1], self.channel.moved)

    @property
    def is_unresponsive(self) -> bool:
        """True while it is not worth asking: whoever drives ranks must not wait for each of them in turn."""
        return self.silent_seconds() > _PROCESS_SECONDS

    def check(self) -> None:
        """Notice whether it has been silent for too long; what has come is read first."""
        if self.silent_seconds() > GONE_SECONDS:
            self.read()
            if self.silent_seconds() > GONE_SECONDS:
                self.mark_lost(f"it has not been heard for {GONE_SECONDS:.0f} s")

    def mark_lost(self, why: str) -> None:
        """Mark the host as lost, with its ranks: messages from it are ignored from now on."""
        if self.lost_reason:
            return
        self.lost_reason = why
        self.channel.close()
        for link in self.links.values():
            link.lose_wire()
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End the host, and with it its ranks; returns when the command has ended."""
        self.mark_lost("it has been let go")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        self._log.close()


def here() -> str:
    """Return the command that starts a host on this machine, for `--via`; the host's name is then only a label."""
    return shlex.join(["env", "DDP_COURSE_HOST={}", sys.executable, "-m", "realranks.ranks.hosts"])
