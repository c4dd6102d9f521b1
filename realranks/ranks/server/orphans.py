"""Processes that ranks have left behind, and that the forkserver, as their subreaper, has inherited.

A process in a session of its own is not reached through the rank's process group; when the rank ends, it becomes a
child of the forkserver. Used inside the forkserver; imports nothing of the course.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Set as AbstractSet


def children() -> set[int]:
    """List the direct children of this process; empty if the system does not show them."""
    pid = os.getpid()
    try:
        with open(f"/proc/self/task/{pid}/children", encoding="ascii") as listed:
            return {int(child) for child in listed.read().split()}
    except OSError:
        pass
    with contextlib.suppress(Exception):
        import psutil

        return {child.pid for child in psutil.Process(pid).children()}
    return set()


def orphans_of_the_dead(living: AbstractSet[int], ranks: AbstractSet[tuple[bytes, bytes]]) -> set[int]:
    """Return the inherited processes that no living rank has started.

    Args:
        living: process ids of the ranks (and stores) that live. ranks: `(MASTER_PORT, RANK)` of each of them.
    """
    return {pid for pid in children() - living if not _is_of_a_living_rank(pid, living, ranks)}


def _is_of_a_living_rank(pid: int, living: AbstractSet[int], ranks: AbstractSet[tuple[bytes, bytes]]) -> bool:
    try:
        if os.getpgid(pid) in living:
            return True
        with open(f"/proc/{pid}/environ", "rb") as listed:
            variables = dict(entry.partition(b"=")[::2] for entry in listed.read().split(b"\0"))
    except OSError:
        return False
    return (variables.get(b"MASTER_PORT", b""), variables.get(b"RANK", b"")) in ranks
