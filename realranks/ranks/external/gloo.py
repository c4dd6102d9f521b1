"""The gloo groups of another process, and the one in which it waits, inferred from its threads and connections.

Each group of torch's has a thread for its connections (`gloo_tcp_loop`, which waits in epoll for these and no others),
and after it, in the order in which they were started, two that carry out its collectives (`pt_gloo_runloop`). One of
those that has nothing to do waits without a time limit; one that is in a collective waits with the group's timeout.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from realranks.ranks.external.sockets import Connection

_LOOP, _RUNS = "gloo_tcp_loop", "pt_gloo_runloop"
#: Attempts to see a thread asleep, and seconds between them: one of connections wakes a hundred times a second.
_ATTEMPTS, _SECONDS = 50, 0.002
#: Where the arguments of futex(2) and epoll_wait(2) are in /proc/PID/task/TID/syscall.
_EPOLL, _TIMEOUT = 1, 4


@dataclass
class _Group:
    sockets: set[int] = field(default_factory=set)
    runs: list[bool] = field(default_factory=list)


def waits_in(
    pid: int, connections: Mapping[int, Connection], owners: Mapping[int, int]
) -> tuple[tuple[int, ...], int]:
    """Find the processes of the group in which a process has a collective under way; empty unless it is certain.

    Args:
        connections: the connections of this network namespace, by the number of their socket.
        owners: the process of each of these sockets.

    Returns:
        The members, this process among them, and how many older groups of the process have the same ones.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        groups = [
            (_members(pid, group.sockets, connections, owners), any(group.runs)) for group in _groups(pid)
        ]
        busy = [n for n, (_, runs) in enumerate(groups) if runs]
        if len(busy) == 1 and groups[busy[0]][0]:
            members = groups[busy[0]][0]
            return members, sum(each == members for each, _ in groups[: busy[0]])
    return (), 0


def _groups(pid: int) -> list[_Group]:
    groups: list[_Group] = []
    for thread in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):
        folder = Path(f"/proc/{pid}/task/{thread}")
        name = (folder / "comm").read_text(encoding="ascii", errors="replace").strip()
        if name == _LOOP:
            if not groups or groups[-1].runs:  # a group may have several interfaces, and a thread for each
                groups.append(_Group())
            groups[-1].sockets |= _watched(pid, folder)
        elif name == _RUNS and groups:
            groups[-1].runs.append(int(_call(folder)[_TIMEOUT], 16) != 0)
    return groups


def _watched(pid: int, folder: Path) -> set[int]:
    """Return the sockets that a connection thread polls."""
    number = int(_call(folder)[_EPOLL], 16)
    fdinfo = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="ascii")
    links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in re.findall(r"^tfd:\s+(\d+)", fdinfo, re.MULTILINE))
    return {int(link[8:-1]) for link in links if link.startswith("socket:[")}


def _call(folder: Path) -> list[str]:
    """Return the number and arguments of the system call in which a thread sleeps.

    Raises:
        OSError: it was never seen asleep.
    """
    for _ in range(_ATTEMPTS):
        words = (folder / "syscall").read_text(encoding="ascii").split()
        if len(words) > _TIMEOUT:
            return words
        time.sleep(_SECONDS)
    raise OSError("not seen asleep")


def _members(
    pid: int, sockets: Iterable[int], connections: Mapping[int, Connection], owners: Mapping[int, int]
) -> tuple[int, ...]:
    """Return this process and those at the other ends; empty if one of them is unknown."""
    ends = {(each.mine, each.theirs): owners.get(number) for number, each in connections.items()}
    peers = {
        ends.get((connections[each].theirs, connections[each].mine))
        for each in sockets
        if each in connections
    }
    known = [each for each in peers if each is not None]
    return tuple(sorted({pid, *known})) if peers and len(known) == len(peers) else ()
