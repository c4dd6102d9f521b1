"""The random numbers that a loader draws for its first batches: noise and augmentation in a dataset.

Noted in the first worker of each loader, in memory that it shares with the rank from which it is forked, or in the rank
itself where there are no workers; a worker that is spawned shares none, and is not looked into. Used inside a rank,
within `watching`, and inside its workers.
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
#: Batches of a loader that are noted.
_MAX_BATCHES = 3
#: A draw in the shared memory: its place is that of the loader, the batch and the generator.
_DRAW = struct.Struct("<III")


class WorkerDraws:
    """The draws of one rank's loaders."""

    def __init__(self, notes: ProbeNotes, loaders: Loaders) -> None:
        self._notes = notes
        self._loaders = loaders
        self._shared = mmap.mmap(-1, MAX_LOADERS * _MAX_BATCHES * len(_NAMES) * _DRAW.size)

    def wrap(self, stack: ExitStack, replace: Replace, noting: WorkerDraws) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        # Not those of a stream: its workers may shuffle it alike on all ranks, before each rank takes its part.
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        def make(original: _Fetch[_R]) -> _Fetch[_R]:
            def fetch(fetcher: _MapDatasetFetcher, index: object) -> _R:
                begun = noting.before(fetcher)
                data = original(fetcher, index)
                if begun:
                    noting.after(*begun, index)
                return data

            return fetch

        replace(stack, _MapDatasetFetcher, "fetch", make)

    def before(self, fetcher: _MapDatasetFetcher) -> tuple[int, int, dict[str, State]] | None:
        """Return the loader, the batch, and where the generators stand before one of the first; None for others."""
        from torch.utils.data import get_worker_info

        worker = get_worker_info()
        loader = self._loaders.number if worker is not None else self._loaders.number_of(fetcher)
        if (worker is not None and worker.id) or loader >= MAX_LOADERS:
            return None
        batches = (
            n for n in range(_MAX_BATCHES) if not any(self._read(loader, n, name).rows for name in _NAMES)
        )
        batch = next(batches, None)
        return (loader, batch, _states()) if batch is not None else None

    def after(self, loader: int, batch: int, before: dict[str, State], index: object) -> None:
        """Record what was drawn for a batch."""
        rows = len(index) if isinstance(index, list | tuple) else 1
        for name, now in _states().items():
            if name in before:
                state = zlib.crc32(repr(before[name]).encode())
                # A seed of the row's own leaves another state on each rank.
                numbers = numbers_between(before[name], now, unless_seeded=False)
                place = self._place(loader, batch, name)
                _DRAW.pack_into(self._shared, place, state, numbers, rows)

    def collect(self) -> None:
        """Fill what was noted into the notes of their loaders."""
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
