"""The wires to a set of ranks, driven from one thread: wait for what they say, ask them something.

Nothing here polls: every wait is for a file descriptor. Who starts and stops the ranks is not decided here.
"""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.ranks.deadlock import Look
from course_lib.ranks.interrupts import StopRequests
from course_lib.ranks.link import Link
from course_lib.ranks.protocol import BufferedChannel, Message

_LONGEST_WAIT = 1.0


class Wires:
    """Ranks that can be listened to and asked."""

    links: Sequence[Link]
    world_size: int

    def __init__(self) -> None:
        self.job = 0
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._writing: set[int] = set()
        self._watched: set[int] = set()

    def _watch(self, fd: int, on_ready: Callable[[], Any]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, on_ready)
        self._watched.add(fd)

    def _watch_link(self, link: Link) -> None:
        self._watch(link.channel.fileno(), link.read)
        for buffer in (link.stdout, link.stderr, link.stack_dump):
            self._watch(buffer.fd, buffer.read)

    def _forget(self, fd: int) -> None:
        if fd in self._watched:
            self._watched.discard(fd)
            self._selector.unregister(fd)

    def pump(self, timeout: float | None, stop: StopRequests | None = None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        for link in self.links:
            self._watch_writing(link.channel)
            if link.channel.closed:
                self._forget(link.channel.fileno())
        if stop is not None:
            self._selector.register(stop.fileno(), selectors.EVENT_READ, stop.take)
        try:
            # Never for long: with several gangs, another thread may have taken in what the launcher said.
            longest = _LONGEST_WAIT if timeout is None else min(max(0.0, timeout), _LONGEST_WAIT)
            for key, events in self._selector.select(longest):
                if events & selectors.EVENT_WRITE:
                    for link in self.links:
                        if not link.channel.closed and link.channel.fileno() == key.fd:
                            link.channel.flush()
                if events & selectors.EVENT_READ and key.data() is False:
                    self._forget(key.fd)  # the pipe's other end is closed
        finally:
            if stop is not None:
                self._selector.unregister(stop.fileno())

    def _watch_writing(self, channel: BufferedChannel) -> None:
        if channel.closed or channel.fileno() not in self._watched:
            return
        fd = channel.fileno()
        if channel.wants_write != (fd in self._writing):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.wants_write else 0)
            self._selector.modify(fd, events, self._selector.get_key(fd).data)
            (self._writing.add if channel.wants_write else self._writing.discard)(fd)

    def ask(
        self,
        kind: str,
        reply: str,
        data: dict[str, Any],
        timeout: float,
        ranks: Sequence[int] | None = None,
        stop: StopRequests | None = None,
    ) -> dict[int, Message]:
        """Send a message to ranks and collect their replies; ranks that do not answer in time are left out.

        A press of the stop button ends the waiting too (given `stop`).
        """
        self.job += 1
        job = self.job
        links = [link for link in self.links if link.alive and (ranks is None or link.rank in ranks)]
        for link in links:
            link.channel.send(Message(kind, {"id": job, **data}))
        replies: dict[int, Message] = {}
        deadline = time.monotonic() + timeout
        while True:
            for link in links:
                if link.rank not in replies:
                    message = link.take(reply, job)
                    if message is not None:
                        replies[link.rank] = message
            left = deadline - time.monotonic()
            if left <= 0 or all(link.rank in replies or not link.answers for link in links):
                return replies
            if stop is not None and stop.pressed:
                return replies
            self.pump(left, stop)

    def look(self, timeout: float = 1.0, detail: bool = False) -> dict[int, Look]:
        """Where every rank is now; ranks that do not answer in time are left out. `detail`: see `answering.look`."""
        with self._lock:
            replies = self.ask("look", "seen", {"detail": detail}, timeout)
            return {rank: Look.from_message(rank, message.data) for rank, message in replies.items()}
