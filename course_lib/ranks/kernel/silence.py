"""Whether a process that serves others will not answer any more: stopped, asleep with work to do, or lost in a loop.

Such a process never ends, and whoever waits for it would wait for ever. A slow one is never taken for a silent one:
what counts is what the process itself has done with its time, not what the clock says.
"""

from __future__ import annotations

from dataclasses import dataclass

import psutil

#: Seconds between two looks, and how many in a row must find the process stopped; or asleep, though it owes an answer.
LOOK_SECONDS = 0.5
_STOPPED_LOOKS, _ASLEEP_LOOKS = 4, 8
#: Processor seconds in which a process that owes an answer has given none: starting a rank takes some milliseconds.
_BUSY_SECONDS = 3.0
_LETTERS = {
    psutil.STATUS_SLEEPING: "S",
    psutil.STATUS_IDLE: "S",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "T",
}


@dataclass
class Silence:
    """What the looks at one process have found so far."""

    process: psutil.Process
    _stopped: int = 0
    _asleep: int = 0
    _used: float = 0.0
    _request: int | None = None
    _used_before: float = 0.0  # at the first look that found this request without an answer

    def look(self, request: int | None) -> bool:
        """Look at the process; True when no answer of it will ever come.

        Args:
            request: the number of the oldest request that it has not answered, if there is one.

        Raises:
            psutil.Error: it has ended.
        """
        with self.process.oneshot():
            status, times = self.process.status(), self.process.cpu_times()
        state, used = _LETTERS.get(status, "D"), times.user + times.system
        waited_for = request is not None and request == self._request
        if not waited_for:
            self._request, self._used_before = request, used
        self._stopped = self._stopped + 1 if state == "T" else 0
        self._asleep = self._asleep + 1 if waited_for and state == "S" and used == self._used else 0
        self._used = used
        lost = waited_for and used - self._used_before >= _BUSY_SECONDS
        return self._stopped >= _STOPPED_LOOKS or self._asleep >= _ASLEEP_LOOKS or lost
