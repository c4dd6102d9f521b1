"""The ranks that a script has started itself, as they come: a set, with a place for each of them.

A process that calls `init_process_group` is a rank and says which one; the first of them begins a set of as many as it
says. The others have a place kept for them until they come, or until it is clear that no other process will: the script
itself waits, and every process it has started has attached.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TypeVar

from realranks.outcome.places import Frame
from realranks.ranks.kernel.job import Run
from realranks.ranks.kernel.links import Link, Wires
from realranks.ranks.messages import StatusReply, StatusRequest, encode_message
from realranks.ranks.observed.meeting import ONLY_JOB, excuse
from realranks.ranks.observed.script_processes import Expected, Processes, StartedLink

#: Between two requests for the status of the script's own process while places are empty, in seconds.
_ASK_EVERY = 0.4


class RankSet(Wires):
    """The ranks of one process group, as they come; who has not come has a place that is kept."""

    def __init__(self, script: Processes) -> None:
        super().__init__()
        self.script = script
        self.job = ONLY_JOB
        self.run: Run | None = None
        #: By rank. The same list as the run's: who comes takes the place of an `Expected`.
        self.places: list[Link] = []
        self.links = self.places
        self.world_size = 0
        self.wanted = 0
        self._asked: int | None = None
        self._ask_at = 0.0
        self._stack: tuple[Frame, ...] | None = None
        self._at_rest = False
        self._known: object = None

    def started_ns(self) -> int:
        """Return when the first of them began."""
        return min(link.started_ns for link in self.script.attached)

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        waiting = len(self._placed(joined=True)) < self.wanted
        self.script.pump(min(timeout, _ASK_EVERY) if waiting and timeout is not None else timeout)
        for place in self.places:
            self.script.take_reports(place)
        self.fill()
        if self.run is not None:
            excuse(self.places, self.run)

    def fill(self) -> None:
        """Give each process that has joined the place of the rank it says it is, and those that are left to others."""
        if self.run is not None and self.run.stopped_at:
            return  # they are being ended: a process that comes now is too late
        for link in [*self.script.attached, *self._placed()]:
            link.hear()
        self._count()
        joined = [link for link in self.script.attached if link.joined_rank is not None]
        if not joined and len(self._placed(joined=True)) == self.wanted:
            return
        self._ask_the_script()
        settled = self._no_other_comes()
        for link in self._placed():
            if link.joined_rank != link.rank and (link.joined_rank is not None or not settled):
                self._take_back(link)
        if not settled:
            self.places += [Expected(rank) for rank in range(len(self.places), self.wanted)]
            self.world_size = len(self.places)
        for link in self.script.attached[:]:
            if link.joined_rank is not None:
                self._place(link, link.joined_rank)
        if settled:
            self._settle()

    def _placed(self, joined: bool = False) -> list[StartedLink]:
        links = [place for place in self.places if isinstance(place, StartedLink)]
        return [link for link in links if link.joined_rank is not None] if joined else links

    def _count(self) -> None:
        """Determine the number of ranks: as many as a joined rank reports, or as there are processes."""
        sizes = [
            link.world_size
            for link in [*self.script.attached, *self._placed()]
            if link.joined_rank is not None
        ]
        self.wanted = max([self.wanted, *sizes])
        if not self.wanted:
            self.wanted = len(self.script.attached) + len(self.script.pending)

    def _place(self, link: StartedLink, wish: int) -> None:
        """Give it the place that it wishes; where that is another's, one that is free or a new one."""
        there = self.places[wish] if 0 <= wish < len(self.places) else None
        if isinstance(there, StartedLink) and there.joined_rank is None:
            self._take_back(there)
        free = self._free()
        if not free:
            free = [len(self.places)]
            self.places.append(Expected(free[0]))
            self.world_size = len(self.places)
        link.rank = wish if wish in free else free[0]
        self.places[link.rank].close()
        self.places[link.rank] = link
        self.script.attached.remove(link)
        if self.run is not None and link.done is not None:
            self.run.done[link.rank] = link.done

    def _free(self) -> list[int]:
        return [place.rank for place in self.places if isinstance(place, Expected)]

    def _take_back(self, link: StartedLink) -> None:
        """Free the place of a process that has not joined, or joined as another rank."""
        if self.run is not None:
            link.done = self.run.done.pop(link.rank, None)
            self.run.died_first.pop(link.rank, None)
            self.run.ended.discard(link.rank)
        self.places[link.rank] = Expected(link.rank)
        self.script.attached.append(link)

    # -- when no other process comes -----------------------------------------------------------------------------

    def _ask_the_script(self) -> None:
        """Check whether the script's own process still waits in multiprocessing, at the place of its last status.

        Statuses from before a process began or ended do not count: the script may have waited for just that one, to
        start the next.
        """
        own, now = self.script.own, time.monotonic()
        over = {link.pid for link in [*self.script.attached, *self._placed()] if link.over}
        if (self.script.started, over) != self._known:
            self._known = self.script.started, over
            self._stack, self._at_rest, self._asked = None, False, None
            self._ask_at = now
        if self._asked is not None:
            reply = own.take(StatusReply, self._asked)
            if reply is not None:
                stack = reply.status.stack if reply.status.asleep else None
                self._at_rest = stack is not None and stack == self._stack and _waits_for_processes(stack)
                self._stack, self._asked = stack, None
                self._ask_at = now + _ASK_EVERY
        elif own.answers and now >= self._ask_at:
            self._asked = -int(now * 1000)  # no number of a job
            own.channel.send(encode_message(StatusRequest(brief=True), self._asked))

    def _no_other_comes(self) -> bool:
        own = self.script.own
        over = not own.alive or own.said_how() is not None
        return over or (self._at_rest and not self.script.pending)

    def _settle(self) -> None:
        """Give the remaining places to processes that have not joined; places left after that stay empty."""
        rest = sorted(
            self.script.attached,
            key=lambda each: (each.index is None, not each.failed, each.over, each.order),
        )
        for link in rest[: len(self._free())]:
            self._place(link, link.index if link.index is not None else self._free()[0])
        if self._free():
            for place in self.places:
                if isinstance(place, Expected):
                    place.kill()
                    place.close()
            self.places[:] = [place for place in self.places if not isinstance(place, Expected)]
            for rank, place in enumerate(self.places):
                self._rename(place, rank)
            self.world_size = len(self.places)

    def _rename(self, place: Link, rank: int) -> None:
        if self.run is not None and place.rank != rank:
            _move(self.run.done, place.rank, rank)
            _move(self.run.died_first, place.rank, rank)
        place.rank = rank

    def dismiss(self) -> None:
        """Release the ranks, those with the causing error first, so that the script hears of that one."""
        run = self.run
        links = [place for place in self.places if isinstance(place, StartedLink)]
        first = [
            link
            for link in links
            if run is not None
            and link.rank not in run.stopped_at
            and link.rank in run.done
            and run.done[link.rank].error is not None
        ]
        for link in first:
            link.let_go()
        deadline = time.monotonic() + 1.0
        while any(link.alive for link in first) and (left := deadline - time.monotonic()) > 0:
            self.script.pump(left)
        for link in links:
            link.let_go()


_Value = TypeVar("_Value")


def _move(table: dict[int, _Value], old: int, new: int) -> None:
    if old in table:
        table[new] = table.pop(old)


#: While one of these is on the stack, a process is being started.
_STARTING = {"start", "_launch", "ensure_running"}


def _waits_for_processes(stack: Sequence[Frame]) -> bool:
    """Check for a main thread that waits in `multiprocessing` for processes or for what they send."""
    inside = [frame for frame in stack if "/multiprocessing/" in frame.file.replace(os.sep, "/")]
    return bool(inside) and not any(frame.function in _STARTING for frame in inside)
