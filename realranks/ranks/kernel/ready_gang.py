"""A gang whose ranks are there: its states, what its ranks can be asked for, and how they get a new process group.

How it starts, takes jobs and stops is in `gang`, above the files that run a job on it.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping

from realranks.outcome.outcome import Collective, RankVariableError
from realranks.outcome.packed import Packed
from realranks.ranks.kernel.deadlock import issued_between
from realranks.ranks.kernel.event_loop import Wires
from realranks.ranks.kernel.interrupts import deferred
from realranks.ranks.kernel.rank_handle import GangLink
from realranks.ranks.messages import Fetch, Fetched, Rebuild, Rebuilt

#: Connecting every rank with every other takes time that grows with their number.
_START_SECONDS, _START_SECONDS_PER_RANK = 60.0, 1.0
_REBUILD_SECONDS, _REBUILD_SECONDS_PER_RANK, _REBUILD_SECONDS_IF_CUT = 10.0, 0.5, 4.0
_FETCH_SECONDS = 60.0


def start_patience(world_size: int) -> float:
    """Return how many seconds ranks may take to start and to connect."""
    return _START_SECONDS + _START_SECONDS_PER_RANK * world_size


class State(enum.StrEnum):
    """The state of a gang."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    BROKEN = "broken"
    STOPPED = "stopped"


class ReadyGang(Wires):
    """Real ranks with a process group, and what is known of them from job to job.

    Attributes:
        init: whether the process group is the course's own, or the learner's.
        state: what the gang can do now.
        epoch: how many process groups its ranks have been given after the first.
        used: when its ranks were last asked for something, by `time.monotonic`.
        numbers: how many operations each rank had issued on each of its groups when the last job ended.
    """

    def __init__(self, world_size: int, init: bool) -> None:
        super().__init__()
        self.world_size = world_size
        self.init = init
        self.links: list[GangLink] = []
        self.state = State.STARTING
        self.epoch = 0
        self.used = time.monotonic()
        self.numbers: dict[int, Mapping[str, int]] = {}

    def fetch(self, name: str | None, through: Callable[..., object] | None = None) -> dict[int, Packed]:
        """Fetch a variable of the ranks' namespace (or, with None, the last value) by rank, still packed.

        Args:
            name: of the variable. through: a function of an importable module that is called with it on each rank;
                what it returns is sent instead.

        Raises:
            RankVariableError: no rank has it, or the gang is gone.
        """
        with self._lock, deferred() as stop, self.watching_stop(stop):
            if self.state is not State.IDLE:
                raise RankVariableError(
                    f"{name or 'the value'!r} cannot be fetched: the ranks are {self.state}."
                )
            self.used = time.monotonic()
            how = f"{through.__module__}:{through.__qualname__}" if through is not None else None
            replies = self.ask(Fetch(name, how), Fetched, _FETCH_SECONDS, stop=stop)
            if stop.pressed:
                stop.acknowledge()
                raise KeyboardInterrupt
        if not replies:
            raise RankVariableError(f"{name or 'the value'!r} cannot be fetched: no rank answers.")
        found = {rank: reply for rank, reply in sorted(replies.items()) if reply.found}
        if not found:
            raise RankVariableError(f"No rank has a variable named {name!r}.")
        return {rank: (reply.value, reply.not_sent) for rank, reply in found.items()}

    def mark_broken(self) -> None:
        """Mark the gang as unusable until it is restarted, because a rank is gone."""
        self.state = State.BROKEN

    def collectives_between(self, started_ns: int, ended_ns: int) -> dict[int, tuple[Collective, ...]]:
        """Return the collectives issued in a span of time, by rank; empty when the gang is gone."""
        if self.state not in (State.IDLE, State.BUSY):
            return {}
        return issued_between(self.get_statuses(_FETCH_SECONDS, detail=True), started_ns, ended_ns)

    def rebuild_group(self, cut: bool = False) -> int | None:
        """Give the ranks a new process group, keeping their Python state.

        Args:
            cut: the network between the ranks' machines was cut a moment ago: either it is mended, or no group comes.

        Returns how many DDP wrappers were moved to it on rank 0, or None when that failed: only a restart helps then.
        """
        if not all(link.alive for link in self.links):
            self.state = State.BROKEN
            return None
        if not self.init:
            return 0
        self.epoch += 1
        patience = _REBUILD_SECONDS + _REBUILD_SECONDS_PER_RANK * self.world_size
        if cut:
            patience = _REBUILD_SECONDS_IF_CUT
        elif any(link.uses_gpus for link in self.links):  # NCCL may connect them anew, as at the start
            patience = start_patience(self.world_size)
        replies = self.ask(Rebuild(self.epoch), Rebuilt, patience)
        if len(replies) < self.world_size or any(reply.problem is not None for reply in replies.values()):
            for link in self.links:
                link.kill()
            self.state = State.BROKEN
            return None
        return replies[0].wrappers
