"""Limits of the processes that run an answer, kept from outside: how many, how large, and that none is left.

A rank's own limits (`confine`) can be got round by starting other programs; this cannot.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import psutil

from realranks.ranks.kernel.launcher import warm_up

if TYPE_CHECKING:
    from realranks.ranks.kernel.gang import Gang

MAX_PROCESSES = 100
MAX_MEMORY = 2 << 30
MAX_FILES_BYTES = 256 << 20
MAX_FILES = 10_000
MAX_PRINTED = 1 << 30
#: A storm of forks that is being ended makes new processes meanwhile; on a busy machine that takes its time.
_END_SECONDS = 10.0
#: Seconds in which a process that has been forked becomes another program, if it is to become one.
_EXEC_SECONDS = 1.0


class OverLimitError(Exception):
    """The answer uses more than it may; the message is one clear line."""


class ProcessLimits:
    """The limits of one gang; `look` is called some ten times a second while the answer runs."""

    def __init__(self, gang: Gang, folder: str) -> None:
        self.gang = gang
        self.folder = folder
        self._memory_at_start: int | None = None

    def look(self) -> None:
        """Raise OverLimitError when the gang has grown too large."""
        ranks = [link.pid for link in self.gang.links if link.pid is not None and link.alive]
        started = _descendants(ranks)
        if len(started) > MAX_PROCESSES:
            raise OverLimitError(f"more than {MAX_PROCESSES} processes were started")
        memory = sum(_resident(pid) for pid in ranks)
        if self._memory_at_start is None:
            self._memory_at_start = memory
        if memory - self._memory_at_start + sum(_resident(pid) for pid in started) > MAX_MEMORY:
            # Forks share most of it with each other.
            memory = sum(_own_share(pid) for pid in (*ranks, *started))
        if memory - self._memory_at_start > MAX_MEMORY:
            raise OverLimitError(f"the ranks use more than {_size(MAX_MEMORY)} of memory")
        if sum(link.stdout.size + link.stderr.size for link in self.gang.links) > MAX_PRINTED:
            raise OverLimitError(f"more than {_size(MAX_PRINTED)} were printed")
        size, number = _look_at_files(self.folder)
        if number > MAX_FILES:
            raise OverLimitError(f"more than {MAX_FILES} files were made")
        if size + _size_of_removed((*ranks, *started)) > MAX_FILES_BYTES:
            raise OverLimitError(f"more than {_size(MAX_FILES_BYTES)} were written to files")


def _size(number: int) -> str:
    return f"{number >> 30} GB" if number >= 1 << 30 else f"{number >> 20} MB"


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _own_share(pid: int) -> int:
    """Return the bytes of memory of a process, where those that it shares with others count in parts."""
    with contextlib.suppress(psutil.Error, AttributeError):
        return int(psutil.Process(pid).memory_full_info().pss)
    return _resident(pid)


def _size_of_removed(pids: Iterable[int]) -> int:
    """Return the bytes of files without a name that these processes hold open (Linux): removed ones, `memfd_create`."""
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    file = os.stat(f"/proc/{pid}/fd/{descriptor}")
                    if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                        found[file.st_dev, file.st_ino] = file.st_blocks * 512
    return sum(found.values())


def _descendants(pids: Iterable[int]) -> set[int]:
    """Return all descendants of these processes."""
    found: set[int] = set()
    coming = list(pids)
    while coming:
        for child in _children(coming.pop()) - found:
            found.add(child)
            coming.append(child)
    return found


def _children(pid: int) -> set[int]:
    """Return the direct children of a process; of one that has ended, none."""
    if not _listed():
        with contextlib.suppress(psutil.Error):
            return {child.pid for child in psutil.Process(pid).children()}
        return set()
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as children:
                found |= {int(child) for child in children.read().split()}
    return found


@functools.cache
def _listed() -> bool:
    """Return whether the system lists a process' children: far cheaper than a search of all processes."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _look_at_files(folder: str) -> tuple[int, int]:
    """Return the bytes of all files in a folder, and the number of files and folders; both as far as is of interest."""
    size = number = 0
    folders = [folder]
    while folders and number <= MAX_FILES:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in itertools.islice(entries, MAX_FILES + 1):
                number += 1
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_size
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return size, number


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[str]:
    """Make a folder for an answer's files, and remove it, whatever is in it."""
    folder = tempfile.mkdtemp(prefix="ddp-course-answer-")
    try:
        yield folder
    finally:
        remove_folder(folder)


def remove_folder(folder: str) -> None:
    """Remove a folder, however deep it is; `shutil.rmtree`, which is recursive, would fail."""
    numbers = itertools.count()
    left = [folder]
    while left:
        here = left.pop()
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(here)):
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.path, 0o700)
                    left.append(f"{folder}-{next(numbers)}")
                    os.rename(entry.path, left[-1])
                else:
                    os.unlink(entry.path)
            os.rmdir(here)


class NothingLeft:
    """A context that ends what an answer started and left behind (`setsid`, daemons), wherever it hid.

    The launcher adopts every orphan of its ranks. What it has adopted since the context began, and what is no
    rank, is such a leftover.
    """

    def __enter__(self) -> NothingLeft:
        self._before = {process.pid for process in adopted()}
        return self

    def __exit__(self, *_: object) -> None:
        started = time.monotonic()
        while time.monotonic() < started + _END_SECONDS:
            left = [process for process in adopted() if process.pid not in self._before]
            if not left:
                return
            if time.monotonic() < started + _EXEC_SECONDS and any(map(_is_a_fork, left)):
                # It may be about to become the one that cleans up: a look at a busy machine can come so early.
                time.sleep(0.01)
                continue
            for process in left:
                with contextlib.suppress(psutil.Error):
                    for child in process.children(recursive=True):
                        child.kill()
                    process.kill()
            psutil.wait_procs(left, timeout=0.1)


def _is_a_fork(process: psutil.Process) -> bool:
    """Return whether this process, forked a moment ago, still has the command line of the server of ranks, or none."""
    with contextlib.suppress(psutil.Error):
        young = time.time() - process.create_time() < _EXEC_SECONDS
        return young and process.cmdline() in ([], psutil.Process(warm_up().pid).cmdline())
    return False


def _cleans_up(process: psutil.Process) -> bool:
    """Return whether this process removes what a rank has left in shared memory; it then ends by itself."""
    with contextlib.suppress(psutil.Error):
        return any("resource_tracker" in word or "torch_shm_manager" in word for word in process.cmdline())
    return False


def adopted() -> list[psutil.Process]:
    """Return processes that the server of ranks has adopted: their parent, a rank or its child, has ended."""
    launcher = warm_up()
    launcher.pump()
    ours = set(launcher.pids.values())
    found = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(launcher.pid).children():
            with contextlib.suppress(psutil.Error):
                zombie = process.status() == psutil.STATUS_ZOMBIE
                if process.pid not in ours and not zombie and not _cleans_up(process):
                    found.append(process)
    return found
