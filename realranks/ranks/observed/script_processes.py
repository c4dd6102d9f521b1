"""The processes of a script that starts its ranks itself, as the doctor holds them; places for those yet to come."""

from __future__ import annotations

import socket
import time

from realranks.outcome.outcome import EXIT_UNKNOWN
from realranks.ranks.kernel.gang import Gang
from realranks.ranks.kernel.links import GangLink, Link
from realranks.ranks.messages import Attached, JobReply, Joined, ProcessEnded, ProcessStarted
from realranks.ranks.observed.meeting import AttachedLink, nothing_written
from realranks.ranks.protocol import BufferedChannel

#: How long a process whose wire is closed may take until its exit code is known.
_SECONDS_TO_BE_TOLD = 0.5


class Processes:
    """The script's own process, and those that it has started: who has attached, and what is told of the others.

    Attributes:
        attached: processes that have attached and belong to no set of ranks (yet), in the order in which they were
            started.
        pending: ids of those that were started and have not attached yet. known: ids of those that have attached.
        exits: the exit code by id of those of which it was told. started: how many were.
    """

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.own: GangLink = gang.links[0]
        self.attached: list[StartedLink] = []
        self.pending: set[int] = set()
        self.known: set[int] = set()
        self.exits: dict[int, int] = {}
        self.started = 0

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen to any process, and take it in."""
        self.gang.pump(timeout)
        for link in (self.own, *self.attached):
            self.take_reports(link)

    def take_reports(self, link: Link) -> None:
        """Take the reports of this process about the processes it started."""
        for begun in link.take_all(ProcessStarted):
            self.started += 1
            self.exits.pop(begun.pid, None)  # the system uses numbers again
            if begun.pid not in self.known:
                self.pending.add(begun.pid)
        for ended in link.take_all(ProcessEnded):
            self.exits[ended.pid] = ended.code
            self.pending.discard(ended.pid)


class StartedLink(AttachedLink):
    """A process that the script has started.

    Attributes:
        order: which of the processes started by the same one it is. index: its number to `torch.multiprocessing.spawn`.
        joined_rank: the rank it has given to `init_process_group`; None until it comes there. world_size: the same.
        done: how it has ended, where that was noted while it had the place of a rank that it was not.
    """

    def __init__(
        self, script: Processes, channel: BufferedChannel, crash: socket.socket, hello: Attached
    ) -> None:
        super().__init__(-1, channel, crash, hello.pid, hello.started_ns)
        self.outermost = GangLink.outermost if hello.forked else AttachedLink.outermost
        self.script = script
        self.order = hello.order
        self.index = hello.index
        self.joined_rank: int | None = None
        self.world_size = 0
        self.done: JobReply | None = None

    def hear(self) -> None:
        """Take in whether it has joined."""
        for joined in self.take_all(Joined):
            self.joined_rank, self.world_size = joined.rank, joined.world_size

    @property
    def over(self) -> bool:
        """True when its part has ended."""
        return self.done is not None or self.said_how() is not None or self.channel.closed

    @property
    def failed(self) -> bool:
        """True when its part has ended in an error, or it has died."""
        said = self.said_how()
        if self.done is None and said is not None:
            return said.data.get("error") is not None
        return self.done.error is not None if self.done is not None else self.channel.closed

    @property
    def exit_code(self) -> int | None:
        """The exit code: None while its wire is open, `EXIT_UNKNOWN` if its parent does not report it."""
        if self._exit_code is None and self.channel.closed:
            reported = self.script.exits.get(self._pid)
            found = super().exit_code if reported is None else reported
            deadline = time.monotonic() + _SECONDS_TO_BE_TOLD
            while found == EXIT_UNKNOWN and time.monotonic() < deadline:
                # Its parent asks for its exit code, and passes it on.
                time.sleep(0.01)
                self.script.own.read()
                self.script.take_reports(self.script.own)
                found = self.script.exits.get(self._pid, EXIT_UNKNOWN)
            self._exit_code = found
        return self._exit_code


class _NoWire(BufferedChannel):
    """The wire of a rank that has not come."""

    def __init__(self) -> None:
        mine, self._theirs = socket.socketpair()
        super().__init__(mine)

    def send_encoded(self, message: bytes) -> None:
        """Do nothing: no process has attached."""


class Expected(Link):
    """The place of a rank that has not come yet: it lives, and does not answer."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, _NoWire(), [nothing_written() for _ in range(3)])
        self._given_up = False

    @property
    def pid(self) -> int | None:
        """There is none."""
        return None

    @property
    def exit_code(self) -> int | None:
        """None until it is not waited for any more."""
        return EXIT_UNKNOWN if self._given_up else None

    @property
    def answers(self) -> bool:
        """It does not."""
        return False

    def kill(self) -> None:
        """Wait for it no longer."""
        self.killed_by_course = self._given_up = True

    def is_stopped(self) -> bool:
        """Return False, since it is not known."""
        return False
