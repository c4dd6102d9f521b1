"""A kernel's current gang: which one a cell runs on, and when it ends."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from realranks.cells.refused import UsageError
from realranks.ranks.hosts.spread import Hosts, HostsStart
from realranks.ranks.kernel.gang import Gang, State, validate_request

NO_RANKS = "There are no ranks: this kernel is new, or they have been stopped."
#: What helps where the cells above have not run, in the words of JupyterLab's menu.
RUN_ABOVE = "In the middle of a lesson, choose Run > Run All Above Selected Cell."
#: The variable by which the administrator of a shared machine has gangs ended that are not used for so many minutes.
IDLE_VARIABLE = "DDP_COURSE_IDLE_MINUTES"


@dataclass(frozen=True)
class _GangRequest:
    """The gang that a cell asks for."""

    size: int
    backend: str
    init: bool

    def fits(self, gang: Gang) -> bool:
        """Check whether this gang has the requested settings."""
        return (self.size, self.backend, self.init) == (gang.world_size, gang.requested_backend, gang.init)


def _requested(size: int | None, backend: str | None, init: bool | None, old: Gang | None) -> _GangRequest:
    """Combine what a cell asks of its gang with the settings of the gang before it."""
    if old is None:
        assert size is not None, "refused before"
        return _GangRequest(size, backend or "auto", init is not False)
    return _GangRequest(
        old.world_size if size is None else size,
        backend or old.requested_backend,
        # Who asks for a number of ranks begins anew: `--no-init` is not meant to last.
        (old.init if size is None else True) if init is None else init,
    )


def _what_is_lost(old: Gang | None, request: _GangRequest) -> str | None:
    """Return the note for a cell whose gang is replaced; None if nothing was lost."""
    if old is None or old.state is State.STOPPED:
        return None
    if old.state is State.BROKEN:
        return "A rank was gone, so all ranks are new: the variables of the old ones are lost."
    if old.job == 0:
        return None
    if request.size == old.world_size:
        return "New ranks: the variables of the old ones are lost."
    return f"New ranks ({request.size} instead of {old.world_size}): the variables of the old ones are lost."


@dataclass
class Session:
    """The kernel's current gang."""

    gang: Gang | None = None
    #: The machines that ranks are started on; None for this one.
    hosts: Hosts | None = None
    #: Says that a gang was ended because it was not used; empty otherwise.
    idle_notice: str = ""

    def gang_for(
        self,
        size: int | None,
        *,
        backend: str | None,
        init: bool | None,
        fresh: bool,
        only: Sequence[int] | None = None,
    ) -> tuple[Gang, str | None]:
        """Return the gang a cell is to run on, started if need be, and a note about it.

        Raises:
            UsageError: there is no gang and no size is given.
        """
        old = self.gang
        if old is not None:
            with contextlib.suppress(OSError, ValueError):
                old.refresh()
        if old is not None and size is None and not fresh and old.has_survivors(only):
            return old, None
        lives = old is not None and old.state is not State.STOPPED
        if size is None and not lives:
            raise UsageError(f"{self.idle_notice or NO_RANKS} {RUN_ABOVE} %%ranks 4 alone starts four ranks.")
        request = _requested(size, backend, init, old)
        if lives and old is not None and old.state is not State.BROKEN and not fresh and request.fits(old):
            return old, None
        start = None
        # What cannot be is refused before the old gang is given up.
        if self.hosts is None:
            validate_request(request.size, request.backend)
        else:
            start = HostsStart(self.hosts, request.size, request.backend)
        note = None if fresh else _what_is_lost(old, request)
        self.stop()
        self.gang = Gang(request.size, backend=request.backend, init=request.init, start=start)
        if self.idle_notice:
            note, self.idle_notice = f"{self.idle_notice} These are new ones.", ""
        self.end_when_idle()
        return self.gang, note

    def end_when_idle(self) -> None:
        """Have the current gang ended when it is not used, where the machine's administrator wants that.

        The kernel's own event loop does it, between two cells: one thread drives a gang.
        """
        gang, seconds = self.gang, _idle_seconds()
        if gang is None or seconds is None:
            return
        with contextlib.suppress(RuntimeError):  # a program without an event loop ends its gangs itself
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, self._look, gang, seconds, loop)

    def _look(self, gang: Gang, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        if gang is not self.gang:
            return
        left = gang.used + seconds - time.monotonic()
        if left > 0 or gang.state is State.BUSY:
            loop.call_later(max(left, 1.0), self._look, gang, seconds, loop)
            return
        self.stop()
        unused = f"Nobody had used the ranks for {seconds / 60:g} minutes"
        self.idle_notice = f"{unused}: they were ended, and their variables are lost."

    def stop(self) -> None:
        """End the current gang, if there is one."""
        if self.gang is not None:
            self.gang.stop()
            self.gang = None

    def close(self) -> None:
        """End the gang and wait until its ranks have closed the learner's files: the kernel is about to end."""
        gang = self.gang
        self.stop()
        if gang is not None:
            gang.reap(1.0)
        self.use(None)

    def use(self, hosts: Hosts | None) -> None:
        """Start ranks on these machines from now on; None for this one. The current gang is ended."""
        self.stop()
        if self.hosts is not None:
            self.hosts.close()
        self.hosts = hosts


def _idle_seconds() -> float | None:
    try:
        minutes = float(os.environ.get(IDLE_VARIABLE, ""))
    except ValueError:
        return None
    return minutes * 60 if 0 < minutes < float("inf") else None


SESSION = Session()
atexit.register(SESSION.close)
