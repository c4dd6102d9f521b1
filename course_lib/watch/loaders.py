"""Which samples a rank draws: noted for every DataLoader, by epoch. Used inside a rank, within `watching`."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from course_lib.outcome.probe_notes import EpochNotes, LoaderNotes
from course_lib.watch.guard import Replace

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

_Iterate = Callable[["DataLoader[object]"], "_BaseDataLoaderIter"]
_Follow = Callable[["_BaseDataLoaderIter"], object]

_MOST_LOADERS, _MOST_EPOCHS, _MOST_INDICES = 8, 4, 5000


@dataclass
class Epoch:
    """One pass over a loader: the samples' numbers as drawn (so many at most), and a checksum of all."""

    indices: list[int] = field(default_factory=list)
    batches: int = 0
    crc: int = 0

    def add(self, batch: list[int]) -> None:
        """One batch has been drawn."""
        self.batches += 1
        self.crc = zlib.crc32(repr(batch).encode(), self.crc)
        self.indices += batch[: max(0, _MOST_INDICES - len(self.indices))]


@dataclass
class Loader:
    """One DataLoader, counted from 0 in the order of their first use."""

    number: int
    sampler: str
    shuffles: bool
    samples: int
    #: For a DistributedSampler, its own rank and the number of ranks it deals to.
    share: list[int] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    trains: bool = False


class Loaders:
    """The loaders of this rank."""

    def __init__(self) -> None:
        self.found: dict[int, Loader] = {}
        self.batches = 0
        self._kept: list[DataLoader[object]] = []  # a loader's id is its name: it must not be used again
        self._newest: Loader | None = None
        # By the iterator itself: the id of one that has ended is soon used again for the next epoch's.
        self._early: WeakKeyDictionary[_BaseDataLoaderIter, list[list[int]]] = WeakKeyDictionary()
        self._epochs: WeakKeyDictionary[_BaseDataLoaderIter, Epoch] = WeakKeyDictionary()
        self._loaders: WeakKeyDictionary[_BaseDataLoaderIter, Loader] = WeakKeyDictionary()

    def to_record(self) -> tuple[LoaderNotes, ...]:
        """What was noted of each."""
        return tuple(
            LoaderNotes(
                number=loader.number,
                sampler=loader.sampler,
                shuffles=loader.shuffles,
                samples=loader.samples,
                trains=loader.trains,
                share=tuple(loader.share),
                epochs=tuple(
                    EpochNotes(tuple(epoch.indices), epoch.batches, epoch.crc) for epoch in loader.epochs
                ),
            )
            for loader in list(self.found.values())
        )

    def trained(self) -> None:
        """A model is being trained: with what the newest loader gave."""
        if self._newest is not None:
            self._newest.trains = True

    def wrap(self, stack: ExitStack, replace: Replace, noting: Loaders) -> None:
        """Note what every loader draws, until the stack is closed; `noting` has these methods and never raises."""
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        def begin(original: _Iterate) -> _Iterate:
            def iterate(loader: DataLoader[object]) -> _BaseDataLoaderIter:
                noting.beginning(loader)
                made = original(loader)
                noting.begun(loader, made)
                return made

            return iterate

        def draw(original: _Follow) -> _Follow:
            def _next_index(iterator: _BaseDataLoaderIter) -> object:
                index = original(iterator)
                noting.drawn(iterator, index)
                return index

            return _next_index

        def give(original: _Follow) -> _Follow:
            def following(iterator: _BaseDataLoaderIter) -> object:
                batch = original(iterator)
                noting.given(iterator)
                return batch

            return following

        replace(stack, DataLoader, "__iter__", begin)
        replace(stack, _BaseDataLoaderIter, "_next_index", draw)
        replace(stack, _BaseDataLoaderIter, "__next__", give)

    def beginning(self, loader: DataLoader[object]) -> None:
        """A loader is about to make an iterator."""
        # With persistent workers the same iterator begins again, and draws before it is handed out.
        kept = getattr(loader, "_iterator", None)
        if kept is not None:
            self._epochs.pop(kept, None)

    def given(self, iterator: _BaseDataLoaderIter) -> None:
        """A batch has been handed out."""
        self.batches += 1
        self._newest = self._loaders.get(iterator)

    def begun(self, loader: DataLoader[object], iterator: _BaseDataLoaderIter) -> None:
        """A loader has made an iterator."""
        if id(loader) not in self.found:
            if len(self.found) >= _MOST_LOADERS:
                self._newest = None
                return
            self._kept.append(loader)
            sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
            samples = len(loader.dataset) if hasattr(loader.dataset, "__len__") else -1
            share = [getattr(sampler, name, None) for name in ("rank", "num_replicas")]
            self.found[id(loader)] = Loader(
                len(self.found),
                type(sampler).__name__,
                bool(getattr(sampler, "shuffle", False)),
                samples,
                [value for value in share if isinstance(value, int)],
            )
        self._newest = self.found[id(loader)]
        epoch = Epoch()
        if len(self._newest.epochs) < _MOST_EPOCHS:
            self._newest.epochs.append(epoch)
        self._epochs[iterator] = epoch
        self._loaders[iterator] = self._newest
        # Workers have drawn their first batches while the iterator was made.
        for batch in self._early.pop(iterator, []):
            epoch.add(batch)

    def drawn(self, iterator: _BaseDataLoaderIter, index: object) -> None:
        """The sampler has given the numbers of a batch."""
        batch = [index] if isinstance(index, int) else list(index) if isinstance(index, list | tuple) else []
        if not all(isinstance(number, int) for number in batch):
            return
        if iterator in self._epochs:
            self._epochs[iterator].add(batch)
        else:
            self._early.setdefault(iterator, []).append(batch)
