"""A rank's report on itself when something went wrong, or when it was watched (`ranks/inside/self_report.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from realranks.outcome.probe_notes import ProbeNotes
from realranks.outcome.wrapped import WrappedModel


class ThreadPlace(NamedTuple):
    """A thread: its name, and the learner's line at which it is; empty where it is at none."""

    name: str
    where: str


class StoreAddress(NamedTuple):
    """MASTER_ADDR and MASTER_PORT, each empty where it is not set."""

    host: str
    port: str


class Handled(NamedTuple):
    """An exception that a rank is handling, in an `except` or a `finally`: its type, and the learner's line."""

    type: str
    where: str


class LeftBehind(NamedTuple):
    """A key that a rank's error mentions, and a table that has it only in the process which started the rank.

    The table's name is empty for a name of the script itself.
    """

    key: str
    table: str


@dataclass(frozen=True)
class InitArguments:
    """The arguments of `init_process_group` (or `init_rpc`); rank and world size may come from the environment.

    Attributes:
        timeout: in seconds.
    """

    rank: int | None
    world_size: int | None
    backend: str | None = None
    init_method: str | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class Facts:
    """A rank's report on itself.

    Attributes:
        models: its DDP models.
        groups: the global ranks of each process group it belongs to, by the group's name.
        issued: how many operations it has issued on each of them; NCCL's count on their own (`NAME/nccl`).
        left: those of its groups that nothing in its process refers to any more.
        groups_made: how many groups were asked for so far; None without torch.distributed.
        memory_bytes: resident memory.
        threads: the learner's threads without which the process could end.
        agent_store: it was told that its launcher has made the store that it asks for.
        master: where it looks for the store.
        init: what `init_process_group` was called with, where that is on the stack.
        probe: what was noted while it was watched; None where it was not.
        handled: the exception that its main thread is handling.
        left_behind: what its error mentions that only the process which started it has.
    """

    models: tuple[WrappedModel, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    issued: Mapping[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    groups_made: int | None = None
    memory_bytes: int | None = None
    threads: tuple[ThreadPlace, ...] = ()
    agent_store: bool = False
    master: StoreAddress | None = None
    init: InitArguments | None = None
    probe: ProbeNotes | None = None
    handled: Handled | None = None
    left_behind: LeftBehind | None = None

    def all_groups(self) -> dict[str, tuple[int, ...]]:
        """Return the members of each group that the rank has reported, also of groups that were destroyed."""
        gone = self.probe.groups if self.probe is not None else {}
        return {**gone, **self.groups}


#: What is known of a rank that has said nothing of itself.
NO_FACTS = Facts()
