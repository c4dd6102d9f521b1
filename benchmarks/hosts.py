"""Ranks on two hosts beside as many on this machine, and what the kernel does with a thousand ranks."""

from __future__ import annotations

import shlex
import sys
import time
from typing import Any

from benchmarks.gangs import CourseRanks

#: Plays its ranks; the name of the course in it says that it starts a host by itself.
PLAYED = shlex.join(["env", "PLAYS=realranks", "HOST={}", sys.executable, "-m", "benchmarks.played_host"])


class HostRanks(CourseRanks):
    """Ranks on hosts of this machine: two forkservers, and every message passes a host."""

    def __init__(self, world_size: int, names: tuple[str, ...] = ("a", "b"), via: str | None = None) -> None:
        from realranks.ranks.hosts.host import here
        from realranks.ranks.hosts.spread import Hosts

        self.world_size = world_size
        self.hosts = Hosts(names, via or here())
        self.gang: Any = None
        self.outcome: Any = None

    def start(self) -> float:
        from realranks.ranks.hosts.spread import HostsStart
        from realranks.ranks.kernel.gang import Gang

        before = time.perf_counter()
        self.gang = Gang(self.world_size, start=HostsStart(self.hosts, self.world_size, "auto"))
        self.gang.wait_ready()
        return time.perf_counter() - before

    def close(self) -> None:
        """End the hosts."""
        self.stop()
        self.hosts.close()


def played(world_size: int) -> HostRanks:
    """Create ranks that hosts only simulate, at most 128 on each."""
    number = max(2, world_size // 128)
    return HostRanks(world_size, tuple(f"h{place}" for place in range(number)), PLAYED)
