"""The wires to a set of ranks, driven from one thread: wait for what they say, ask them something.

Nothing here polls: every wait is for a file descriptor. Who starts and stops the ranks is not decided here.
"""

from __future__ import annotations

import contextlib
import selectors
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from realranks.ranks.codec import MalformedError
from realranks.ranks.kernel.interrupts import StopRequests
from realranks.ranks.kernel.output import OutputBuffer
from realranks.ranks.kernel.rank_handle import Link
from realranks.ranks.messages import Body, Cannot, StatusReply, StatusRequest, encode_message
from realranks.ranks.protocol import BufferedChannel
from realranks.ranks.status import RankStatus

_Reply = TypeVar("_Reply", bound=Body)

_LONGEST_WAIT = 1.0


class Wires:
    """Ranks that can be listened to and asked."""

    links: Sequence[Link]
    world_size: int

    def __init__(self) -> None:
        self.job = 0
        self._lock = threading.RLock()
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
