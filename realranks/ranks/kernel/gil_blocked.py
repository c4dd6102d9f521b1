"""Whether a rank that does not answer is blocked in C code that holds the GIL.

The thread that answers the kernel needs that lock. A rank that does not answer computes in C code that keeps it, or has
too little of a core, or waits in such code for another thread of its own process. Only the last sleeps: its main thread
in a futex, and all threads together use next to no processor time. C++ that ends a thread while it keeps the GIL waits
like this for ever when that thread needs the GIL as well. Whether another thread would yet set it free cannot be seen.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from realranks.ranks.process import stat_fields

# torch 2.13.0 waits like this in `~Reducer`, where a DDP model is the last to hold a gloo group.

#: Checks in a row that must find it so, and at least so many seconds from the first to the last.
_CHECKS, _SECONDS = 4, 1.5
#: The share of a core that threads may use meanwhile: one that waits for the GIL asks for it 200 times a second.
_SHARE = 0.05


@dataclass
class AtRest:
    """A series of checks of one process.

    Attributes:
        pid: the process; its main thread has the same number.
    """

    pid: int
    _since: float = 0.0
    _checks: int = field(default=0)
    _used: float = 0.0

    def check(self) -> bool:
        """Check whether the process has been idle for several checks in a row; always False except on Linux."""
        now, used = time.monotonic(), _seconds_used(self.pid)
        if used is None or (self._checks and used - self._used > _SHARE * (now - self._since) + _TICK):
            self._checks = 0
            return False
        if not self._checks:
            self._since, self._used = now, used
        self._checks += 1
        return self._checks >= _CHECKS and now - self._since >= _SECONDS


_TICK = 1 / os.sysconf("SC_CLK_TCK")


def _seconds_used(pid: int) -> float | None:
    """Sum the CPU time of all threads; None if one waits for a disk, or the main thread is not asleep in a futex."""
    tasks, used = Path(f"/proc/{pid}/task"), 0
    try:
        if "futex" not in (tasks / str(pid) / "wchan").read_text(encoding="ascii"):
            return None
        for task in tasks.iterdir():
            fields = stat_fields((task / "stat").read_bytes())
            if fields[0] == b"D":
                return None
            used += int(fields[11]) + int(fields[12])
    except OSError:
        return None
    return used * _TICK


def wants_to_run(pid: int) -> bool:
    """Check whether a thread of the process runs or waits for a core; True if the system does not show it."""
    try:
        states = {
            stat_fields((task / "stat").read_bytes())[0] for task in Path(f"/proc/{pid}/task").iterdir()
        }
    except OSError:
        return True
    return b"R" in states or not states
