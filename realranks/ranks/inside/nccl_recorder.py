"""This rank's entries in NCCL's own flight recorder: how far its GPU is in each group, and what it was given.

Used inside a rank, by the thread that answers the kernel; only torch's CUDA build has such a recorder. There are two
ways to ask:

* `queues` reads the recorder's status of each group. It asks CUDA for nothing: torch's watchdog keeps the status.
* `entries` reads every collective. For that the recorder asks CUDA for the state of events while it holds the GIL,
  which may not answer while another thread is inside a call of CUDA's that allocates or frees. So it is only read from
  a rank whose main thread is known to wait for its GPU, or to run nothing.

Source: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp and logger.hpp (2.14.1).
docs/gpu.md says what of it has met a GPU.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from typing import TypedDict

from realranks.ranks.inside.flight_recorder import Entry
from realranks.ranks.inside.groups import backends_of, names, uses_cuda
from realranks.ranks.status import GpuQueue


class _Status(TypedDict):
    """The progress of one backend."""

    last_enqueued_collective: int
    last_completed_collective: int


class Dump(TypedDict, total=False):
    """A dump of the recorder, of what the course reads."""

    pg_status: dict[str, _Status]
    entries: list[Entry]


def read_recorder(everything: bool) -> tuple[dict[str, GpuQueue], list[Entry]]:
    """Return `queues` and, with `everything`, the `entries` with their stacks; empty if they cannot be read."""
    numbers: dict[str, GpuQueue] = {}
    recorded: list[Entry] = []
    with contextlib.suppress(Exception):
        numbers = queues()
        if everything:
            recorded = entries(stacks=True)
    return numbers, recorded


def queues() -> dict[str, GpuQueue]:
    """Return how far this rank and its GPU are in each group, by name; empty if the rank has not used CUDA."""
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
    """Return the recorder's entries: what this rank passed to NCCL, oldest first."""
    if not uses_cuda():
        return []
    return list(_dump(True, stacks).get("entries", []))


def read_status(dump: Dump) -> dict[str, tuple[int, int]]:
    """Map a backend's `uid` to its last enqueued and its last completed collective; -1: none."""
    return {
        str(uid): (int(status["last_enqueued_collective"]), int(status["last_completed_collective"]))
        for uid, status in dump.get("pg_status", {}).items()
    }


def _dump(collectives: bool, stacks: bool) -> Dump:
    """Read the recorder's dump; empty if this torch has none (the CPU build)."""
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_nccl_trace", None)
    if dump is None:
        return {}
    dumped: Dump = pickle.loads(dump(collectives, stacks, False))  # from torch, in this very process
    return dumped
