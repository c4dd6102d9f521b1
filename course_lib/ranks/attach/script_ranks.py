"""The ranks that a script has started itself, as they come: a set, with a place for each of them.

A process that calls `init_process_group` is a rank and says which one; the first of them begins a set of as many as it
says. The others have a place kept for them until they come, or until it is clear that nobody else will: the script
itself waits, and every process it has started has attached.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from course_lib.outcome.places import Frame
from course_lib.ranks.attach.meeting import ONLY_JOB, excuse
from course_lib.ranks.attach.script_processes import Expected, StartedLink
from course_lib.ranks.kernel.event_loop import Wires
from course_lib.ranks.kernel.job import Run
from course_lib.ranks.kernel.rank_handle import Link
from course_lib.ranks.messages import Done, Seen, Where, written

if TYPE_CHECKING:
    from course_lib.ranks.attach.script_run import Script

#: Between two looks at the script's own process while places are empty, in seconds.
_LOOK_EVERY = 0.4


class SetOfRanks(Wires):
    """The ranks of one process group, as they come; who has not come has a place that is kept."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        self.job = ONLY_JOB
        self.this: Run | None = None
        #: By rank. The same list as the run's: who comes takes the place of an `Expected`.
        self.places: list[Link] = []
        self.links = self.places
        self.world_size = 0
        self._asked: int | None = None
        self._look_at = 0.0
        self._stack: tuple[Frame, ...] | None = None
        self._at_rest = False

    def started_ns(self) -> int:
        """When the first of them began."""
        return min(link.started_ns for link in self.script.attached)

    def pump(self, timeout: float | None) -> None:
        """Wait for the next thing to happen, at most `timeout` seconds, and take it in."""
        waiting = any(isinstance(place, Expected) for place in self.places)
        self.script.pump(min(timeout, _LOOK_EVERY) if waiting and timeout is not None else timeout)
        for place in self.places:
            self.script.take_told(place)
        self.fill()
        if self.this is not None:
            excuse(self.places, self.this)

    def fill(self) -> None:
        """Give everybody who has joined the place of the rank that it says it is."""
        for link in self.script.attached:
            link.hear()
        joined = [link for link in self.script.attached if link.rank_told is not None]
        if not self.places:
            self._keep_places(joined)
        for link in joined:
            self._place(link)
        for place in self.places[:]:
            if isinstance(place, StartedLink) and place.rank_told is None:
                place.hear()
                self._put_right(place)
        if any(isinstance(place, Expected) for place in self.places):
            self._look_at_the_script()
            if self._nobody_else_comes():
                self._settle()

    def _keep_places(self, joined: Sequence[StartedLink]) -> None:
        sizes = [link.world_size for link in joined if link.world_size > 0]
        number = sizes[0] if sizes else len(self.script.attached) + len(self.script.pending)
        self._grow(number)

    def _grow(self, number: int) -> None:
        self.places += [Expected(rank) for rank in range(len(self.places), number)]
        self.world_size = len(self.places)

    def _place(self, link: StartedLink, wish: int | None = None) -> None:
        wish = link.rank_told if wish is None else wish
        free = [place.rank for place in self.places if isinstance(place, Expected)]
        if wish not in free:
            if not free:
                self._grow(len(self.places) + 1)
                free = [len(self.places) - 1]
            wish = free[0]
        link.rank = wish
        self.places[wish].close()
        self.places[wish] = link
        self.script.attached.remove(link)

    def _put_right(self, link: StartedLink) -> None:
        """One that was given a place before it joined has joined now, as another rank."""
        told = link.rank_told
        if told is None or told == link.rank or not 0 <= told < len(self.places):
            return
        other = self.places[told]
        if isinstance(other, StartedLink) and other.rank_told is None:
            mine = link.rank
            self.places[told], self.places[mine] = link, other
            self._rename(other, -1)
            self._rename(link, told)
            self._rename(other, mine)

    # -- when nobody else comes ----------------------------------------------------------------------------------

    def _look_at_the_script(self) -> None:
        """Does the script's own process wait in multiprocessing, at the same place as at the look before?"""
        own, now = self.script.own, time.monotonic()
        if self._asked is not None:
            seen = own.take(Seen, self._asked)
            if seen is not None:
                stack = seen.look.stack if seen.look.asleep else None
                self._at_rest = stack is not None and stack == self._stack and _waits_for_processes(stack)
                self._stack, self._asked = stack, None
                self._look_at = now + _LOOK_EVERY
        elif own.answers and now >= self._look_at:
            self._asked = -int(now * 1000)  # no number of a job
            own.channel.send(written(Where(brief=True), self._asked))

    def _nobody_else_comes(self) -> bool:
        own = self.script.own
        over = not own.alive or any(message.kind == Done.kind for message in own.inbox)
        return over or (self._at_rest and not self.script.pending)

    def _settle(self) -> None:
        """Processes that have not joined take the places that are left; what is left then is nobody's."""
        rest = sorted(
            self.script.attached, key=lambda link: (link.index is None, not link.failed, link.order)
        )
        for link in rest:
            free = [place.rank for place in self.places if isinstance(place, Expected)]
            if not free:
                break
            if not link.channel.closed or link.failed or link.index is not None:
                self._place(link, link.index if link.index in free else free[0])
        if any(isinstance(place, Expected) for place in self.places):
            here = [place for place in self.places if not isinstance(place, Expected)]
            for place in self.places:
                if isinstance(place, Expected):
                    place.kill()
                    place.close()
            for rank, place in enumerate(here):
                self._rename(place, rank)
            self.places[:] = here
            self.world_size = len(here)

    def _rename(self, place: Link, rank: int) -> None:
        if place.rank == rank:
            return
        if self.this is not None:
            _move(self.this.done, place.rank, rank)
            _move(self.this.died_first, place.rank, rank)
        place.rank = rank

    def dismiss(self) -> None:
        """The verdict stands: first those go whose error is the cause, so that the script hears of that one."""
        this = self.this
        links = [place for place in self.places if isinstance(place, StartedLink)]
        first = [
            link
            for link in links
            if this is not None
            and link.rank not in this.stopped_at
            and link.rank in this.done
            and this.done[link.rank].error is not None
        ]
        for link in first:
            link.let_go()
        deadline = time.monotonic() + 1.0
        while any(link.alive for link in first) and (left := deadline - time.monotonic()) > 0:
            self.script.pump(left)
        for link in links:
            link.let_go()


_Told = TypeVar("_Told")


def _move(told: dict[int, _Told], old: int, new: int) -> None:
    if old in told:
        told[new] = told.pop(old)


#: While one of these is on the stack, a process is being started.
_STARTING = {"start", "_launch", "ensure_running"}


def _waits_for_processes(stack: Sequence[Frame]) -> bool:
    """True for a main thread that waits in `multiprocessing` for processes or for what they send."""
    inside = [frame for frame in stack if "/multiprocessing/" in frame.file.replace(os.sep, "/")]
    return bool(inside) and not any(frame.function in _STARTING for frame in inside)
