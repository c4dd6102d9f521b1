"""Is anything of this process still on its way? Bytes on its connections, threads that want a core, child processes.

Used inside a rank, by the thread that answers the kernel; reads what Linux tells and touches nothing. A rank that
sleeps in a collective is not stuck while gloo's thread has got no core, or while a peer's bytes lie unread in a socket.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import socket
import stat
import struct
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from realranks.ranks.process import stat_fields

#: What Linux tells of this process's threads.
TASKS = "/proc/self/task"
#: `tcpi_bytes_acked` and `tcpi_bytes_received` in Linux' `struct tcp_info` (linux/tcp.h, since Linux 4.2).
_BYTES = struct.Struct("<120xQQ")
_ESTABLISHED = 1
#: Bytes received that the process has not read, and bytes sent that the peer has not acknowledged (linux/sockios.h).
_SIOCINQ, _SIOCOUTQ = 0x541B, 0x5411
_RUNS = ("R", "D")
#: Processes that do nothing for the one that has started them, by a word of their command.
_NOT_ITS_OWN = (b"multiprocessing.resource_tracker", b"realranks.scripts.watcher")
#: A thread that keeps its core for so long could have given it up and taken it again.
_TURN_SECONDS = 0.005
_libc = ctypes.CDLL(None)
#: Longer than any address of a socket.
_ADDRESS_BYTES = 128
#: Where the machine's own part is in an address of IPv4, and of IPv6, by its length.
_HOST_OF = defaultdict(lambda: slice(None), {16: slice(4, 8), 28: slice(8, 24)})


@dataclass(frozen=True)
class Traffic:
    """The traffic on this process's connections so far.

    Attributes:
        known: False where the system does not tell. moved: bytes sent and received on TCP connections that are open,
            without those of the process with itself (a rank that hosts a store asks it again and again).
        in_flight: bytes of them that one side has not taken yet.
        unconfirmed: bytes sent to other machines that have not arrived there, as far as this one knows.
    """

    known: bool
    moved: int
    in_flight: int
    unconfirmed: int = 0


def traffic() -> Traffic:
    """Look at every TCP connection of this process; some 10 µs each."""
    if not sys.platform.startswith("linux"):
        return Traffic(False, 0, 0)
    found: dict[tuple[bytes, bytes], tuple[int, int, int]] = {}
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        info = _tcp_info(fd)
        if info is not None:
            mine, theirs = _address(_libc.getsockname, fd), _address(_libc.getpeername, fd)
            sent = _waiting(fd, _SIOCOUTQ)
            found[mine, theirs] = (
                sum(_BYTES.unpack_from(info)),
                _waiting(fd, _SIOCINQ) + sent,
                0 if mine[_HOST_OF[len(mine)]] == theirs[_HOST_OF[len(mine)]] else sent,
            )
    others = [info for (mine, theirs), info in found.items() if (theirs, mine) not in found]
    return Traffic(True, *map(sum, zip(*others, strict=True))) if others else Traffic(True, 0, 0)


def _address(ask: Callable[..., int], fd: int) -> bytes:
    answer = ctypes.create_string_buffer(_ADDRESS_BYTES)
    size = ctypes.c_uint32(_ADDRESS_BYTES)
    return answer.raw[: size.value] if ask(fd, answer, ctypes.byref(size)) == 0 else str(fd).encode()


def _tcp_info(fd: int) -> bytes | None:
    """Read `struct tcp_info` of an established TCP connection with this descriptor; None if it is none.

    The system is asked directly: a socket object made for the descriptor would change how it blocks, if the learner's
    code has set a default timeout for sockets.
    """
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return None
    except OSError:
        return None  # closed meanwhile
    answer = ctypes.create_string_buffer(_BYTES.size)
    size = ctypes.c_uint32(_BYTES.size)
    if _libc.getsockopt(fd, socket.IPPROTO_TCP, socket.TCP_INFO, answer, ctypes.byref(size)):
        return None  # no TCP
    info = answer.raw
    return info if size.value == _BYTES.size and info[0] == _ESTABLISHED else None


def _waiting(fd: int, question: int) -> int:
    number = array.array("i", [0])
    try:
        fcntl.ioctl(fd, question, number)
    except OSError:
        return 0
    return number[0]


# -- threads ----------------------------------------------------------------------------------------------------------


def state_of(thread: int, tasks: str = TASKS) -> str | None:
    """Return the kernel's letter for a thread's state (proc(5)), or None if it cannot be read."""
    try:
        with open(f"{tasks}/{thread}/stat", "rb") as file:
            return stat_fields(file.read())[0].decode()
    except (OSError, IndexError):
        return None


def is_asleep(thread: int, tasks: str = TASKS) -> bool:
    """Check whether this thread (by its native id) sleeps, rather than runs or waits for a core."""
    return state_of(thread, tasks) not in _RUNS


@dataclass(frozen=True)
class Awake:
    """The threads of this process that want a core.

    Attributes:
        others: the names of those that run, or would if a core were to spare for them, gloo's left out.
        loops: the threads of gloo's connections, by native id: how often each has had a core, and whether it wants one
            now. They wake a hundred times a second, also when nothing comes.
        loop_seconds: of a core, used by these threads. What they do moves bytes, which are counted; but when a peer has
            reset a connection, gloo's thread may spin for ever and move none.
    """

    others: tuple[str, ...]
    loops: dict[int, tuple[int, bool]]
    loop_seconds: float = 0.0


def awake(ours: frozenset[int] = frozenset(), tasks: str = TASKS) -> Awake:
    """Look at every thread but `ours` (native ids)."""
    others: list[str] = []
    loops: dict[int, tuple[int, bool]] = {}
    used = 0.0
    with contextlib.suppress(OSError):
        for one in map(int, os.listdir(tasks)):
            if one in ours:
                continue
            name, runs = _name_of(one, tasks), state_of(one, tasks) in _RUNS
            if name.startswith("gloo"):
                seconds, turns = _core_of(one, tasks)
                used += seconds
                loops[one] = (turns + int(seconds / _TURN_SECONDS), runs)
            elif runs:
                others.append(name)
    return Awake(tuple(others), loops, used)


def _name_of(thread: int, tasks: str) -> str:
    try:
        with open(f"{tasks}/{thread}/comm", encoding="utf-8", errors="replace") as text:
            return text.read().strip()
    except OSError:
        return ""


def _core_of(thread: int, tasks: str) -> tuple[float, int]:
    """Return for how many seconds this thread has had a core, and how often it was given one."""
    try:
        with open(f"{tasks}/{thread}/schedstat", encoding="ascii", errors="replace") as text:
            nanoseconds, _, turns = map(int, text.read().split())
            return nanoseconds / 1e9, turns
    except (OSError, ValueError):
        return 0.0, 0


def our_threads() -> frozenset[int]:
    """Return the native ids of the course's own threads in this process, and of the calling thread."""
    named = {thread.native_id for thread in threading.enumerate() if thread.name.startswith("course-")}
    return frozenset({threading.get_native_id(), *(one for one in named if one is not None)})


# -- child processes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Child:
    """A process that this one has started: its name, and the seconds of a core it has used."""

    pid: int
    name: str
    cpu_seconds: float


def children(tasks: str = TASKS) -> list[Child]:
    """List the living processes that this one started, except Python's resource tracker and the course's watcher."""
    found = []
    pids: list[str] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(tasks):
            with contextlib.suppress(OSError), open(f"{tasks}/{thread}/children", encoding="ascii") as text:
                pids += text.read().split()
    for pid in pids:
        child = _child(int(pid))
        if child is not None:
            found.append(child)
    return found


def _child(pid: int) -> Child | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as text:
            head, _, tail = text.read().rpartition(")")
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            words = command.read().split(b"\0")
    except OSError:
        return None
    fields = tail.split()
    if fields[0] in "ZX" or any(name in word for name in _NOT_ITS_OWN for word in words):
        return None
    ticks = int(fields[11]) + int(fields[12])
    return Child(pid, head.partition("(")[2], ticks / os.sysconf("SC_CLK_TCK"))
