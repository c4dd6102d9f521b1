"""The samples a rank draws, recorded for every DataLoader, by epoch. Used inside a rank, within `watching`."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from realranks.outcome.probe_notes import MAX_LOADERS, EpochNotes, LoaderNotes, Row
from realranks.watch.guard import Replace
from realranks.watch.rows import epoch_settings, numbered_names, picked, rows_of

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

_Iterate = Callable[["DataLoader[object]"], "_BaseDataLoaderIter"]
_Follow = Callable[["_BaseDataLoaderIter"], object]

_MAX_EPOCHS, _MAX_INDICES = 4, 5000
#: Rows of which a checksum is made: in one pass, and in all.
_MAX_ROWS, _MAX_ROWS_IN_ALL = 1000, 12_000


@dataclass
class Epoch:
    """One pass over a loader: the samples' numbers as drawn (so many at most), and a checksum of all."""

    indices: list[int] = field(default_factory=list)
    batches: int = 0
    crc: int = 0
    noted: bool = True  # one of the first
    ended: bool = False
    rows: list[Row] = field(default_factory=list)
    settings: dict[str, int] = field(default_factory=dict)
    #: Batches that have been drawn, and not yet handed out.
    awaited: deque[list[int]] = field(default_factory=deque)

    def add(self, batch: list[int]) -> None:
        """Record a batch that was drawn."""
        self.batches += 1
        self.crc = zlib.crc32(repr(batch).encode(), self.crc)
        self.indices += batch[: max(0, _MAX_INDICES - len(self.indices))]
        if self.noted and len(self.rows) < _MAX_ROWS:
            self.awaited.append(batch)

    def to_record(self) -> EpochNotes:
        """Return what was recorded of this epoch."""
        return EpochNotes(
            tuple(self.indices), self.batches, self.crc, self.ended, tuple(self.rows), dict(self.settings)
        )


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
    evaluates: bool = False
    dataset: int = 0
    dealt: int = -1
    batching: str = ""
    kept_workers: bool = False
    picked: int | None = None
    numbered: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Loaders:
    """The loaders of this rank."""

    def __init__(self) -> None:
        self.found: dict[int, Loader] = {}
        self.batches = 0
        self._kept: list[DataLoader[object]] = []  # a loader's id is its name: it must not be used again
        self._newest: Loader | None = None
        self._datasets: list[object] = []
        self._rows = 0
        # By the iterator itself: the id of one that has ended is soon used again for the next epoch's.
        self._early: WeakKeyDictionary[_BaseDataLoaderIter, list[list[int]]] = WeakKeyDictionary()
        self._epochs: WeakKeyDictionary[_BaseDataLoaderIter, Epoch] = WeakKeyDictionary()
        self._loaders: WeakKeyDictionary[_BaseDataLoaderIter, Loader] = WeakKeyDictionary()
        self._batched: WeakSet[_BaseDataLoaderIter] = WeakSet()  # what they give is a batch

    def to_record(self) -> tuple[LoaderNotes, ...]:
        """Return what was recorded of each loader."""
        return tuple(
            LoaderNotes(
                number=loader.number,
                sampler=loader.sampler,
                shuffles=loader.shuffles,
                samples=loader.samples,
                trains=loader.trains,
                share=tuple(loader.share),
                epochs=tuple(epoch.to_record() for epoch in loader.epochs),
                evaluates=loader.evaluates,
                dataset=loader.dataset,
                dealt=loader.dealt,
                batching=loader.batching,
                kept_workers=loader.kept_workers,
                picked=loader.picked,
                numbered=dict(loader.numbered),
            )
            for loader in list(self.found.values())
        )

    def trained(self) -> None:
        """Mark the newest loader as one that trains a model."""
        if self._newest is not None:
            self._newest.trains = True

    def evaluated(self) -> None:
        """Mark the newest loader as one that a DDP model is called on without gradients."""
        if self._newest is not None:
            self._newest.evaluates = True

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
                try:
                    batch = original(iterator)
                except StopIteration:
                    noting.ended(iterator)
                    raise
                noting.given(iterator, batch)
                return batch

            return following

        replace(stack, DataLoader, "__iter__", begin)
        replace(stack, _BaseDataLoaderIter, "_next_index", draw)
        replace(stack, _BaseDataLoaderIter, "__next__", give)

    def beginning(self, loader: DataLoader[object]) -> None:
        """Forget the iterator that a loader with persistent workers is about to restart."""
        # With persistent workers the same iterator begins again, and draws before it is handed out.
        kept = getattr(loader, "_iterator", None)
        if kept is not None:
            self._epochs.pop(kept, None)

    def given(self, iterator: _BaseDataLoaderIter, batch: object) -> None:
        """Record the rows of a batch that an iterator returned."""
        self.batches += 1
        self._newest = self._loaders.get(iterator)
        epoch = self._epochs.get(iterator)
        if epoch is None or not epoch.noted:
            return
        numbers = epoch.awaited.popleft() if epoch.awaited else None
        room = min(_MAX_ROWS - len(epoch.rows), _MAX_ROWS_IN_ALL - self._rows)
        if room <= 0 or not getattr(iterator, "_in_order", True) or iterator not in self._batched:
            return
        found = rows_of(batch, numbers)[:room]
        self._rows += len(found)
        epoch.rows += found

    def ended(self, iterator: _BaseDataLoaderIter) -> None:
        """Record that a loader has no more batches."""
        if iterator in self._epochs:
            self._epochs[iterator].ended = True

    def begun(self, loader: DataLoader[object], iterator: _BaseDataLoaderIter) -> None:
        """Record the iterator that a loader has made, and the loader if it is new."""
        if id(loader) not in self.found:
            if len(self.found) >= MAX_LOADERS:
                self._newest = None
                return
            self._kept.append(loader)
            sampler = _sampler_of(loader)
            samples = len(loader.dataset) if hasattr(loader.dataset, "__len__") else -1
            share = [getattr(sampler, name, None) for name in ("rank", "num_replicas")]
            self.found[id(loader)] = Loader(
                len(self.found),
                type(sampler).__name__,
                bool(getattr(sampler, "shuffle", False)),
                samples,
                [value for value in share if isinstance(value, int)],
                dataset=self._number_of(loader.dataset),
                dealt=len(sampler) if hasattr(sampler, "__len__") else -1,
                batching=type(loader.batch_sampler).__name__ if loader.batch_sampler is not None else "",
                kept_workers=bool(loader.num_workers and loader.persistent_workers),
                picked=picked(loader.dataset),
                numbered=numbered_names(loader.dataset),
            )
        self._newest = self.found[id(loader)]
        epoch = Epoch(noted=len(self._newest.epochs) < _MAX_EPOCHS, settings=epoch_settings(loader.dataset))
        if epoch.noted:
            self._newest.epochs.append(epoch)
        if getattr(loader, "_auto_collation", False):
            self._batched.add(iterator)
        self._epochs[iterator] = epoch
        self._loaders[iterator] = self._newest
        # Workers have drawn their first batches while the iterator was made.
        for batch in self._early.pop(iterator, []):
            epoch.add(batch)

    def _number_of(self, dataset: object) -> int:
        for number, known in enumerate(self._datasets):
            if known is dataset:
                return number
        self._datasets.append(dataset)
        return len(self._datasets) - 1

    def drawn(self, iterator: _BaseDataLoaderIter, index: object) -> None:
        """Record the indices that the sampler drew for a batch."""
        batch = [index] if isinstance(index, int) else list(index) if isinstance(index, list | tuple) else []
        if not all(isinstance(number, int) for number in batch):
            return
        if iterator in self._epochs:
            self._epochs[iterator].add(batch)
        else:
            self._early.setdefault(iterator, []).append(batch)


def _sampler_of(loader: DataLoader[object]) -> object:
    """Return the sampler that draws the indices; a batch sampler may wrap another one (accelerate's does)."""
    batching: object = loader.batch_sampler
    while (inner := getattr(batching, "batch_sampler", None)) is not None:
        batching = inner
    return getattr(batching, "sampler", loader.sampler)
