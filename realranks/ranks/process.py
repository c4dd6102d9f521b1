"""Settings of every process of a gang: the process with which it ends, its name, its scheduling.

Linux only, where nothing else is said; elsewhere these do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

#: Has a rank write its main thread's Python stack from C (see `inside.control_thread`), though it may hold the GIL.
STACK_SIGNAL = (
    getattr(signal, "SIGRTMIN", signal.SIGUSR2) + 5 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
)
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
#: In /proc/PID/stat, counted from the state, which follows the name: field 52 of man proc_pid_stat.
STAT_EXIT_CODE = 49


def prctl(option: int, value: int | bytes) -> None:
    """Call prctl where there is one (Linux); elsewhere do nothing."""
    if sys.platform == "linux":
        libc().prctl(option, value, 0, 0, 0)


@functools.cache
def libc() -> ctypes.CDLL:
    """Return the C library, of which `ctypes.get_errno()` tells the last error."""
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the system to kill this process when its parent dies."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def outlive_parent() -> None:
    """Undo `die_with_parent`, or what torch asks for in processes that it forks."""
    prctl(_PR_SET_PDEATHSIG, 0)


def inherit_orphans() -> None:
    """Become the parent of what this process's children leave behind (Linux)."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def identity(pid: int) -> str:
    """Return a process's number and start time, since numbers are reused; '' if the process is gone."""
    began = _began(pid)
    return f"{pid}:{began}" if began else ""


def lives(identity: str) -> bool:
    """Check whether the process that `identity` has named is still alive."""
    pid, _, began = identity.partition(":")
    return pid.isdigit() and bool(began) and _began(int(pid)) == began


def stat_fields(stat: bytes) -> list[bytes]:
    """Split /proc/PID/stat from the state on; the name before it may hold blanks and brackets."""
    return stat.rpartition(b")")[2].split()


def _began(pid: int) -> str:
    if sys.platform == "linux":
        # In the system's own count: seconds since 1970 are computed, and move when the clock is set.
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = stat_fields(file.read())
        except OSError:
            return ""
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return str(process.create_time())
    return ""


def take_turns() -> None:
    """Let this process, when it wakes, wait until the core is given up to it (Linux; its children do so, too).

    Ranks wake each other all the time. With more ranks than cores, one that pre-empts the rank that has just sent it
    something makes two switches of every message: DDP steps take a third to a half longer, a cell on 16 ranks twice as
    long, and the notebook's kernel has to fight for its core.
    """
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def run_and_exit(body: Callable[[], int]) -> NoReturn:
    """Run this and end the process with the exit code that it returns, or 1 and a traceback where it raises.

    Never through the interpreter's shutdown: gloo threads may be alive and abort it.
    """
    code = 1
    try:
        code = body()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def name_process(name: str) -> None:
    """Set the name that `top` and `ps -e` show for this process, up to 15 characters (Linux)."""
    prctl(_PR_SET_NAME, name.encode())
