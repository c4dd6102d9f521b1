"""What NCCL's own flight recorder says of this rank: how far its GPU has got in each group, and what it was given.

Used inside a rank, by the thread that answers the kernel; only torch's CUDA build has such a recorder. There are two
ways to ask:

* `queues` reads the recorder's status of each group. It asks CUDA for nothing: torch's watchdog keeps the status.
* `entries` reads every collective. For that the recorder asks CUDA for the state of events while it holds the GIL,
  which may not answer while another thread is inside a call of CUDA's that allocates or frees. So it is only read from
  a rank whose main thread is known to wait for its GPU, or to run nothing.

Source: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp and logger.hpp (2.14.1). Nothing of this has met a GPU.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from typing import TypedDict

from course_lib.ranks.inside.flight_recorder import Entry
from course_lib.ranks.inside.groups import backends_of, names, uses_cuda
from course_lib.ranks.status import GpuQueue


class _Status(TypedDict):
    """How far one backend has got."""

    last_enqueued_collective: int
    last_completed_collective: int


class Dump(TypedDict, total=False):
    """A dump of the recorder, of what the course reads."""

    pg_status: dict[str, _Status]
    entries: list[Entry]


def told(everything: bool) -> tuple[dict[str, GpuQueue], list[Entry]]:
    """`queues`, and with `everything` the `entries` with their stacks; empty where they cannot be read."""
    numbers: dict[str, GpuQueue] = {}
    recorded: list[Entry] = []
    with contextlib.suppress(Exception):
        numbers = queues()
        if everything:
            recorded = entries(stacks=True)
    return numbers, recorded


def queues() -> dict[str, GpuQueue]:
    """By the group's name, how far this rank and its GPU have got; empty where the rank has not used CUDA."""
    if not uses_cuda():
        return {}
    status = read_status(_dump(False, False))
    found = {}
    for group, name in names():
        for backend in backends_of(group):
            if backend.name() == "nccl" and str(backend.uid) in status:
                enqueued, completed = status[str(backend.uid)]
                found[name] = GpuQueue(int(backend._get_sequence_number_for_group()), enqueued, completed)
    return found


def entries(stacks: bool) -> list[Entry]:
    """What NCCL was given by this rank, oldest first, as the recorder has it."""
    if not uses_cuda():
        return []
    return list(_dump(True, stacks).get("entries", []))


def read_status(dump: Dump) -> dict[str, tuple[int, int]]:
    """By a backend's `uid`: the last collective that was enqueued, and the last one known to be completed; -1: none."""
    return {
        str(uid): (int(told["last_enqueued_collective"]), int(told["last_completed_collective"]))
        for uid, told in dump.get("pg_status", {}).items()
    }


def _dump(collectives: bool, stacks: bool) -> Dump:
    """The recorder's dump; empty where this torch has none (the CPU build)."""
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_nccl_trace", None)
    if dump is None:
        return {}
    told: Dump = pickle.loads(dump(collectives, stacks, False))  # from torch, in this very process
    return told
