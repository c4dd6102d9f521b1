"""The samples a rank draws, recorded for every DataLoader, by epoch. Used inside a rank, within `watching`."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from realranks.outcome.probe_notes import (
    MAX_INDICES,
    MAX_LOADERS,
    MAX_ROWS,
    EpochNotes,
    LoaderNotes,
    ProbeNotes,
)
from realranks.watch.guard import Replace
from realranks.watch.rows import epoch_settings, numbered_names, picked, rows_of

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

_Iterate = Callable[["DataLoader[object]"], "_BaseDataLoaderIter"]
_Follow = Callable[["_BaseDataLoaderIter"], object]

_MAX_EPOCHS = 4
#: Rows of which a checksum is made, in all passes.
_MAX_ROWS_IN_ALL = 12_000


@dataclass
class Epoch(EpochNotes):
    """One pass over a loader, under way."""

    noted: bool = True  # one of the first
    trains: bool = False
    given: int = 0
    drawn: int = 0
    size: int = -1  # batches of a whole pass, where the loader says so
    #: Batches that have been drawn, and not yet handed out.
    awaited: deque[list[int]] = field(default_factory=deque)

    def add(self, batch: list[int]) -> None:
        """Record a batch that was drawn."""
        self.batches += 1
        self.drawn += len(batch)
        self.crc = zlib.crc32(repr(batch).encode(), self.crc)
        self.indices += batch[: max(0, MAX_INDICES - len(self.indices))]
        if self.noted and len(self.rows) < MAX_ROWS:
            self.awaited.append(batch)


class Loaders:
    """The loaders of this rank."""

    def __init__(self, notes: ProbeNotes, passed_by: Callable[[int], object] = lambda loader: None) -> None:
        """`passed_by` is called after a pass over a loader in which no DDP model was called, with its number."""
        self._notes, self._passed_by = notes, passed_by
        self._kept: list[DataLoader[object]] = []  # in the order of the notes
        #: Of the loader whose iterator is being made, or was made last: workers are forked meanwhile.
        self.number = 0
        self._newest: LoaderNotes | None = None
        self._pass: Epoch | None = None  # that of the newest batch
        self._datasets: list[object] = []
        self._rows = 0
        # By the iterator itself: the id of one that has ended is soon used again for the next epoch's.
        self._early: WeakKeyDictionary[_BaseDataLoaderIter, list[list[int]]] = WeakKeyDictionary()
        self._epochs: WeakKeyDictionary[_BaseDataLoaderIter, Epoch] = WeakKeyDictionary()
        self._loaders: WeakKeyDictionary[_BaseDataLoaderIter, LoaderNotes] = WeakKeyDictionary()
        self._batched: WeakSet[_BaseDataLoaderIter] = WeakSet()  # what they give is a batch

    def trained(self) -> None:
        """Mark the newest loader, and its pass, as one that trains a model."""
        if self._newest is not None:
            self._newest.trains = True
        if self._pass is not None:
            if not self._pass.trains:
                self._pass.skipped = self._pass.given - 1
            self._pass.trains, self._pass.evaluates = True, False

    def evaluated(self) -> None:
        """Mark the newest loader, and its pass, as one that a DDP model is called on without gradients."""
        if self._newest is not None:
            self._newest.evaluates = True
        if self._pass is not None:
            self._pass.evaluates = not self._pass.trains

    def evaluation(self) -> tuple[int, int] | None:
        """Return the loader of the newest batch, and the rows of its pass, if this has ended and was an evaluation."""
        loader, epoch = self._newest, self._pass
        if loader is None or epoch is None or not (epoch.evaluates and epoch.ended):
            return None
        return loader.number, epoch.drawn

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
        """Note which loader is about to begin, and forget the iterator that persistent workers restart."""
        self.number = next((n for n, known in enumerate(self._kept) if known is loader), len(self._kept))
        # With persistent workers the same iterator begins again, and draws before it is handed out.
        kept = getattr(loader, "_iterator", None)
        if kept is not None:
            self._epochs.pop(kept, None)

    def given(self, iterator: _BaseDataLoaderIter, batch: object) -> None:
        """Record the rows of a batch that an iterator returned."""
        self._notes.counts.batches += 1
        self._newest = self._loaders.get(iterator)
        self._pass = epoch = self._epochs.get(iterator)
        if epoch is None:
            return
        epoch.given += 1
        if epoch.given == epoch.size:  # a loop that counts batches never asks for one more
            epoch.counted = True
            self._all_given(iterator, epoch)
        if not epoch.noted:
            return
        numbers = epoch.awaited.popleft() if epoch.awaited else None
        room = min(MAX_ROWS - len(epoch.rows), _MAX_ROWS_IN_ALL - self._rows)
        if room <= 0 or not getattr(iterator, "_in_order", True) or iterator not in self._batched:
            return
        found = rows_of(batch, numbers)[:room]
        self._rows += len(found)
        epoch.rows += found

    def ended(self, iterator: _BaseDataLoaderIter) -> None:
        """Record that a loader has no more batches."""
        epoch = self._epochs.get(iterator)
        if epoch is not None:
            epoch.ended = True
            self._loaders[iterator].under_way = False
            self._all_given(iterator, epoch)
            if not (epoch.trains or epoch.evaluates):
                self._passed_by(self._loaders[iterator].number)

    def _all_given(self, iterator: _BaseDataLoaderIter, epoch: Epoch) -> None:
        loader = self._loaders[iterator]
        loader.has_more = False
        loader.length = epoch.given if loader.length in (0, epoch.given) else -1

    def begun(self, loader: DataLoader[object], iterator: _BaseDataLoaderIter) -> None:
        """Record the iterator that a loader has made, and the loader if it is new."""
        if self.number == len(self._kept):
            if self.number >= MAX_LOADERS:
                self._newest = None
                return
            self._notes.loaders.append(self._note(loader))
            self._kept.append(loader)
        self._newest = self._notes.loaders[self.number]
        self._newest.under_way = self._newest.has_more = True
        self._newest.passes += 1
        settings = {**epoch_settings(_sampler_of(loader)), **epoch_settings(loader.dataset)}
        epoch = Epoch(
            noted=len(self._newest.epochs) < _MAX_EPOCHS, settings=settings, size=_batches_of(loader)
        )
        if epoch.noted:
            self._newest.epochs.append(epoch)
        if getattr(loader, "_auto_collation", False):
            self._batched.add(iterator)
        self._epochs[iterator] = epoch
        self._loaders[iterator] = self._newest
        # Workers have drawn their first batches while the iterator was made.
        for batch in self._early.pop(iterator, []):
            epoch.add(batch)

    def _note(self, loader: DataLoader[object]) -> LoaderNotes:
        sampler = _sampler_of(loader)
        share = (getattr(sampler, name, None) for name in ("rank", "num_replicas"))
        return LoaderNotes(
            number=len(self._kept),
            sampler=type(sampler).__name__,
            shuffles=bool(getattr(sampler, "shuffle", hasattr(sampler, "set_epoch"))),
            samples=len(loader.dataset) if hasattr(loader.dataset, "__len__") else -1,
            share=tuple(value for value in share if isinstance(value, int)),
            dataset=self._number_of(loader.dataset),
            dealt=len(sampler) if hasattr(sampler, "__len__") else -1,
            batching=type(loader.batch_sampler).__name__ if loader.batch_sampler is not None else "",
            has_workers=bool(loader.num_workers),
            kept_workers=bool(loader.num_workers and loader.persistent_workers),
            picked=picked(loader.dataset),
            numbered=numbered_names(loader.dataset),
        )

    def number_of(self, fetcher: object) -> int:
        """Return the number of the loader for which a fetcher of this process works; MAX_LOADERS for an unknown one."""
        found = (
            notes.number
            for iterator, notes in self._loaders.items()
            if getattr(iterator, "_dataset_fetcher", None) is fetcher
        )
        return next(found, MAX_LOADERS)

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


def _batches_of(loader: DataLoader[object]) -> int:
    """Return how many batches a pass has; -1 where that is not known, as of a stream."""
    try:
        return len(loader._index_sampler)  # the loader itself takes note of being asked, if it reads a stream
    except (TypeError, NotImplementedError):
        return -1


def _sampler_of(loader: DataLoader[object]) -> object:
    """Return the sampler that draws the indices; a batch sampler may wrap another one (accelerate's does), or be it."""
    batching: object = loader.batch_sampler
    while (inner := getattr(batching, "batch_sampler", None)) is not None:
        batching = inner
    return getattr(batching, "sampler", loader.sampler if batching is None else batching)
