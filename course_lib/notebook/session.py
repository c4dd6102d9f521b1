"""What one kernel remembers between cells of its current gang."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import time
from dataclasses import dataclass

from course_lib.notebook.refused import Refused
from course_lib.ranks.kernel.gang import Gang, State, check_wish

#: The variable by which whoever runs a shared machine has gangs ended that nobody uses, after so many minutes.
IDLE_VARIABLE = "DDP_COURSE_IDLE_MINUTES"


@dataclass
class Session:
    """The kernel's current gang."""

    gang: Gang | None = None
    #: What is to be told of a gang that was ended because nobody used it.
    ended: str = ""

    def gang_for(
        self, size: int | None, *, backend: str | None, init: bool | None, fresh: bool
    ) -> tuple[Gang, str | None]:
        """The gang a cell is to run on, started if need be, and a note about it.

        Raises:
            Refused: no gang yet and no size given.
        """
        old = self.gang
        if old is not None:
            with contextlib.suppress(OSError, ValueError):
                old.refresh()
        alive = old is not None and old.state is not State.STOPPED
        if size is None and not alive:
            yet = f"{self.ended} Start" if self.ended else "There is no gang yet: start"
            raise Refused(f"{yet} one with %%ranks 4 (or %%ranks N for N ranks).")
        wanted = (
            size if size is not None or old is None else old.world_size,
            backend if backend is not None or old is None else old.wished_backend,
            init if init is not None else (old.init if old is not None and size is None else True),
        )
        usable = alive and not fresh and old is not None and old.state is not State.BROKEN
        if usable and old is not None and wanted == (old.world_size, old.wished_backend, old.init):
            return old, None
        note = None
        if old is not None and alive and old.state is State.BROKEN and not fresh:
            note = "A rank of the gang was gone: this is a new gang, the variables of the old one are lost."
        elif old is not None and usable and old.job > 0:
            note = f"A new gang of {wanted[0]}: the variables of the gang of {old.world_size} before it are lost."
            if wanted[0] == old.world_size:
                note = "A new gang: the variables of the one before it are lost."
        assert wanted[0] is not None
        check_wish(wanted[0], wanted[1] or "auto")  # before the old gang is given up
        self.stop()
        self.gang = Gang(wanted[0], backend=wanted[1] or "auto", init=wanted[2])
        if self.ended:
            note, self.ended = f"{self.ended} This is a new one.", ""
        self.end_when_idle()
        return self.gang, note

    def end_when_idle(self) -> None:
        """Have the current gang ended when nobody uses it, where whoever runs this machine wants that.

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
        self.ended = (
            f"Nobody had used the gang of {gang.world_size} for {seconds / 60:g} minutes: it was ended, "
            "and its variables are lost."
        )

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


def _idle_seconds() -> float | None:
    try:
        minutes = float(os.environ.get(IDLE_VARIABLE, ""))
    except ValueError:
        return None
    return minutes * 60 if 0 < minutes < float("inf") else None


SESSION = Session()
atexit.register(SESSION.close)
