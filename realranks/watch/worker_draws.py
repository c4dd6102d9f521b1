"""The random numbers that the workers of a loader draw for its first batches: noise and augmentation in a dataset.

Noted in the first worker of each loader, in memory that it shares with the rank from which it is forked; a worker that
is spawned shares none, and is not looked into. Used inside a rank, within `watching`, and inside its workers.
"""

from __future__ import annotations

import mmap
import random
import struct
import zlib
from array import array
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from realranks.outcome.probe_notes import MAX_LOADERS, Draw, ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.loaders import Loaders
from realranks.watch.random_draws import State, numbers_between, states

if TYPE_CHECKING:
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

_R = TypeVar("_R")
_Fetch = Callable[["_MapDatasetFetcher", object], _R]

_NAMES = ("torch", "numpy.random", "random")
#: Batches of a worker that are noted.
_MAX_BATCHES = 3
#: A draw in the shared memory: its place is that of the loader, the batch and the generator.
_DRAW = struct.Struct("<III")


class WorkerDraws:
    """The draws of one rank's workers."""

    def __init__(self, notes: ProbeNotes, loaders: Loaders) -> None:
        self._notes = notes
        self._loaders = loaders
        self._shared = mmap.mmap(-1, MAX_LOADERS * _MAX_BATCHES * len(_NAMES) * _DRAW.size)
        self._batches = 0  # in a worker, which counts in its copy

    def wrap(self, stack: ExitStack, replace: Replace, noting: WorkerDraws) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        # Not those of a stream: its workers may shuffle it alike on all ranks, before each rank takes its part.
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        def make(original: _Fetch[_R]) -> _Fetch[_R]:
            def fetch(fetcher: _MapDatasetFetcher, index: object) -> _R:
                before = noting.before()
                data = original(fetcher, index)
                if before:
                    noting.after(before, index)
                return data

            return fetch

        replace(stack, _MapDatasetFetcher, "fetch", make)

    def before(self) -> dict[str, State]:
        """Return where the generators stand before a batch of a worker's first ones; empty anywhere else."""
        from torch.utils.data import get_worker_info

        worker = get_worker_info()
        if (
            worker is None
            or worker.id
            or self._batches >= _MAX_BATCHES
            or self._loaders.number >= MAX_LOADERS
        ):
            return {}
        if not self._batches and any(self._read(self._loaders.number, 0, name).rows for name in _NAMES):
            self._batches = _MAX_BATCHES  # a worker of an earlier pass has been here
            return {}
        return _states()

    def after(self, before: dict[str, State], index: object) -> None:
        """Record what was drawn for a batch."""
        rows = len(index) if isinstance(index, list | tuple) else 1
        for name, now in _states().items():
            if name in before:
                state = zlib.crc32(repr(before[name]).encode())
                # A seed of the row's own leaves another state on each rank.
                numbers = numbers_between(before[name], now, unless_seeded=False)
                place = self._place(self._loaders.number, self._batches, name)
                _DRAW.pack_into(self._shared, place, state, numbers, rows)
        self._batches += 1

    def collect(self) -> None:
        """Fill what workers have noted into the notes of their loaders."""
        for loader in self._notes.loaders:
            draws = {
                name: [self._read(loader.number, batch, name) for batch in range(_MAX_BATCHES)]
                for name in _NAMES
            }
            loader.draws = {name: made for name, made in draws.items() if all(draw.rows for draw in made)}

    def _read(self, loader: int, batch: int, name: str) -> Draw:
        return Draw(*_DRAW.unpack_from(self._shared, self._place(loader, batch, name)))

    @staticmethod
    def _place(loader: int, batch: int, name: str) -> int:
        return ((loader * _MAX_BATCHES + batch) * len(_NAMES) + _NAMES.index(name)) * _DRAW.size


def _states() -> dict[str, State]:
    *block, used = random.getstate()[1]
    return {**states(), "random": State(zlib.crc32(array("I", block).tobytes()), used, 0)}
