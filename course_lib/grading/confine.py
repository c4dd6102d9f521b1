"""Limits that a rank puts on itself before an answer runs in it.

A limit that the system enforces for each process (address space, file size, no core dumps), a budget of forks that a
rank shares with all its children, and, where the kernel can do it, what it may touch (`landlock`) and ask for
(`system_calls`). What is not caught here
is caught from outside (`process_limits`). Called in the rank only.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

from course_lib.grading import landlock, system_calls
from course_lib.learner.course import course_folder
from course_lib.syllabus import all_lessons
from realranks.ranks.process import prctl

MEMORY_BYTES = 1 << 30
FILE_BYTES = 64 << 20
FORKS = 128
_NO_NEW_PRIVILEGES = 38
_forks = mmap.mmap(-1, mmap.PAGESIZE)  # a counter that a rank shares with all its children


def confine(folder: str) -> None:
    """Move to the working folder and take on the limits; they hold for the rest of the process' life."""
    os.chdir(folder)
    tempfile.tempdir = folder
    os.environ["TMPDIR"] = folder
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    used = _address_space()
    if used is not None:
        _limit(resource.RLIMIT_AS, used + MEMORY_BYTES)
    _count_forks()
    prctl(_NO_NEW_PRIVILEGES, 1)
    # The folder around it is the answer's, too: each number of ranks has its own in there.
    landlock.restrict(Path(folder).parent, _secrets())
    system_calls.restrict()


def _secrets() -> list[Path]:
    """Return the files that hold right answers."""
    course = course_folder()
    found = [course / name for name in ("solutions", "tests")] if course else []
    return found + [each.folder / name for each in all_lessons() for name in ("answers", "exercises.py")]


def forget_forks() -> None:
    """Begin a new call of the answer: workers of a data loader in the last one do not count."""
    _forks[:4] = bytes(4)


def _limit(which: int, most: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (most, most))


def _address_space() -> int | None:
    """Return the bytes already mapped (a CUDA build of torch maps tens of gigabytes); None where unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * mmap.PAGESIZE
    except (OSError, ValueError):
        return None


def _count_forks() -> None:
    """Let this rank and all its descendants fork `FORKS` times together, in each call of the answer.

    RLIMIT_NPROC does not bind root, and elsewhere counts what else the user runs.
    """

    def counted(fork: Callable[[], object]) -> Callable[[], object]:
        def guarded() -> object:
            used = int.from_bytes(_forks[:4], "little") + 1
            if used > FORKS:
                raise BlockingIOError(errno.EAGAIN, f"an answer may start at most {FORKS} processes a call")
            _forks[:4] = used.to_bytes(4, "little")
            return fork()

        return guarded

    for name in ("fork", "forkpty"):
        if hasattr(os, name):
            setattr(os, name, counted(getattr(os, name)))
