"""Ranks that another launcher has started (`torchrun`), watched over a wire they have opened themselves.

The two ends are `MeetingPlace`, by which the processes of one run find their watcher, and `AttachedRanks`, how the
watcher holds them. A rank is not the watcher's child, so its exit code is read from /proc while it is a zombie, which
is before its launcher reaps it. Since Linux 6.15 a pidfd gives the exit code afterwards, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from realranks.outcome.outcome import EXIT_UNKNOWN
from realranks.ranks.kernel.job import Run
from realranks.ranks.kernel.links import Link, Wires
from realranks.ranks.kernel.output import OutputBuffer
from realranks.ranks.messages import Hello, Verdict, decode_message, encode_message
from realranks.ranks.private_sockets import connected, locked, private_folder, reachable
from realranks.ranks.process import STAT_EXIT_CODE, stat_fields
from realranks.ranks.protocol import BlockingChannel, BufferedChannel

#: The job's number on the wire: an attached rank has only one, the code inside `observe()`.
ONLY_JOB = 1
_RUN = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
)
_SECONDS_TO_BE_GONE = 0.5
# From linux/pidfd.h, where this is PIDFD_INFO_SIZE_VER0, PIDFD_INFO_EXIT and an _IOWR of this size.
_INFO_SIZE, _INFO_EXIT = 64, 1 << 3
_PIDFD_GET_INFO = 0xC0000000 | _INFO_SIZE << 16 | 0xFF << 8 | 11


def run_name() -> str:
    """Return a name that the processes of one run share, on all machines, but not with another attempt."""
    return _digest(_of_run()[:-1])


def _of_run() -> list[str]:
    return [os.environ.get(name, "") for name in _RUN]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class MeetingPlace:
    """A socket in a private folder, the same for all processes that one launcher has started for one attempt."""

    def __init__(self) -> None:
        folder = private_folder()
        if folder is None:
            raise PermissionError("there is no folder for temporary files that only this user may enter")
        self.path = folder / f"{_digest([str(os.getppid()), *_of_run()])}.watcher"

    def connect(self, start: Callable[[socket.socket], None]) -> socket.socket:
        """Connect to the watcher; whichever process comes first calls `start` with the listening socket."""
        with locked(self.path.parent):
            wire = connected(self.path)
            if wire is None:
                self.path.unlink(missing_ok=True)
                with socket.socket(socket.AF_UNIX) as listener:
                    with reachable(self.path) as short:
                        listener.bind(short)
                    listener.listen(512)
                    start(listener)
                wire = connected(self.path)
        if wire is None:
            raise ConnectionError("the process that watches the ranks did not start")
        wire.settimeout(None)
        return wire


class NotAllCame(Exception):
    """A rank is gone before every other one has come; `missing` are those that have not."""

    def __init__(self, missing: Sequence[int]) -> None:
        super().__init__(f"ranks {list(missing)} did not come")
        self.missing = tuple(missing)


def accept_ranks(listener: socket.socket, expected: Sequence[int] = ()) -> list[AttachedLink]:
    """Wait until every rank of the run has said who it is, or each of those that are `expected` on this machine.

    Each rank opens two wires: for questions and answers, and for what Python writes when the process crashes.

    Raises:
        NotAllCame: one of them has gone before that.
    """
    hellos: dict[int, tuple[BlockingChannel, Hello]] = {}
    crashes: dict[int, socket.socket] = {}
    quiet: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        while not expected or len(hellos) < len(expected) or len(crashes) < len(expected):
            ready, _, _ = select.select([listener, *quiet], [], [])
            if listener not in ready:
                for wire in [wire for wire in quiet if wire in ready]:
                    if not wire.recv(1, socket.MSG_PEEK):
                        raise NotAllCame([rank for rank in expected if rank not in hellos])
                    quiet.remove(wire)  # the rank has already left the code: its answer is read later
                continue
            # First the connections that wait already: in a run that was over before this loop, all ranks have come.
            wire, _ = listener.accept()
            stack.callback(wire.close)
            channel = BlockingChannel(wire)
            message = channel.receive()
            if message is None:
                continue
            hello = decode_message(Hello, message)
            expected = expected or range(hello.world_size)
            if hello.wire == "crashes":
                crashes[hello.rank] = wire
            else:
                hellos[hello.rank] = (channel, hello)
                quiet.append(wire)
        stack.pop_all()
    return [
        AttachedLink(rank, channel.buffered(), crashes[rank], hello.pid, hello.started_ns)
        for rank, (channel, hello) in sorted(hellos.items())
    ]


def nothing_written() -> OutputBuffer:
    """Return an output buffer that stays empty: an observed rank prints to where its launcher has sent it."""
    decode_message, write = os.pipe()
    os.close(write)
    return OutputBuffer(decode_message)


class AttachedLink(Link):
    """A rank in a process that is not ours."""

    outermost = "in <module>"

    def __init__(
        self, rank: int, channel: BufferedChannel, crash: socket.socket, pid: int, started_ns: int
    ) -> None:
        super().__init__(rank, channel, [nothing_written(), nothing_written(), OutputBuffer(crash.detach())])
        self.awaited = ONLY_JOB
        self.started_ns = started_ns
        self._pid = pid
        self._exit_code: int | None = None
        self.process: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self.process = os.pidfd_open(self._pid)

    @property
    def pid(self) -> int:
        """The process id, as the rank has told it."""
        return self._pid

    @property
    def exit_code(self) -> int | None:
        """The exit code: None while its wire is open, `EXIT_UNKNOWN` if the system does not report it."""
        if self._exit_code is None and self.channel.closed:
            if self.process is not None:
                select.select([self.process], [], [], _SECONDS_TO_BE_GONE)
            self._exit_code = exit_code_of(self._pid, self.process)
        return self._exit_code

    def close(self) -> None:
        """Give the descriptors back, that of the process too."""
        super().close()
        if self.process is not None:
            os.close(self.process)
            self.process = None

    def let_go(self, text: str = "", *, more: bool = False) -> None:
        """Release a rank that waits for the verdict; see `Verdict`."""
        if self.alive:
            self.channel.send(encode_message(Verdict(text, more)))

    def interrupt(self) -> None:
        """Send SIGINT to the rank alone: its process group may be the launcher's."""
        self.signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the process; its launcher sees to what it has started."""
        self.killed_by_course = True
        self.signal(signal.SIGKILL)


def exit_code_of(pid: int, process: int | None) -> int:
    """Return the exit code of an ended process; `process` is its pidfd, opened while it was alive."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = stat_fields(Path(f"/proc/{pid}/stat").read_bytes())
        if fields[0] in (b"Z", b"X"):
            return os.waitstatus_to_exitcode(int(fields[STAT_EXIT_CODE]))
    if process is not None:
        import fcntl  # not on Windows, where there is no such descriptor either

        # Its parent has asked already. struct pidfd_info: a mask of what is asked and told first, the code last.
        info = bytearray(_INFO_SIZE)
        struct.pack_into("=Q", info, 0, _INFO_EXIT)
        with contextlib.suppress(OSError):
            fcntl.ioctl(process, _PIDFD_GET_INFO, info)
            if struct.unpack_from("=Q", info)[0] & _INFO_EXIT:
                return os.waitstatus_to_exitcode(struct.unpack_from("=i", info, _INFO_SIZE - 4)[0])
    return EXIT_UNKNOWN


def excuse(links: Sequence[Link], run: Run) -> None:
    """Mark ranks that their launcher ended after another one failed: they are not the ones at fault."""
    gone = [link for link in links if link.rank not in run.done and not link.alive]
    excused = [link for link in gone if link.exit_code in (-signal.SIGTERM, EXIT_UNKNOWN)]
    if len(excused) < len(gone) or any(done.error is not None for done in run.done.values()):
        for link in excused:
            run.ended.add(link.rank)
            link.killed_by_course = True


class AttachedRanks(Wires):
    """The ranks of one run of a launcher, as the watcher holds them."""

    links: Sequence[AttachedLink]

    def __init__(self, links: Sequence[AttachedLink]) -> None:
        super().__init__()
        # Numbers of questions must not be taken for the job's.
        self.job = ONLY_JOB
        self.links = links
        self.world_size = len(links)
        self.run: Run | None = None
        for link in links:
            self.watch_link(link)
            link.read()

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        super().pump(timeout)
        if self.run is not None:
            excuse(self.links, self.run)

    def go_on(self, number: int, text: str) -> None:
        """Release the ranks that wait for the result of their last job, which is `text`; the next has this number."""
        for link in self.links:
            link.awaited = number
            link.let_go(text, more=True)

    def say_goodbye(self, text: str = "") -> None:
        """Release the ranks that wait for the verdict."""
        for link in self.links:
            link.let_go(text)
