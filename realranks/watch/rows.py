"""Checksums of the rows that a loader returns, so that the same sample is recognised on another rank.

Used inside a rank. Only batches are read that the script has got; nothing is drawn, and no dataset is asked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from realranks.outcome.probe_notes import Row

if TYPE_CHECKING:
    from torch import Tensor

#: Elements of a row that are looked at, evenly strided.
_MAX_ELEMENTS = 1024
#: Names of a numbered list that are kept.
_MAX_NAMES = 40
#: Datasets within datasets that are looked into.
_DEPTH = 4


def rows_of(batch: object, numbers: Sequence[int] | None) -> list[Row]:
    """Split a batch into rows, each with the index under which it was drawn; empty if it cannot be split.

    A row takes from everything whose first dimension is the batch's and from lists of text of that length, but not from
    the indices themselves. Its label is the last part that is one integer per row, if another part comes before it.

    Args:
        numbers: None for a stream, whose rows have the number -1.
    """
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(batch)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors or any(
        t.device.type != "cpu" or t.layout is not torch.strided or t.is_quantized for t in tensors
    ):
        return []
    size = len(numbers) if numbers is not None else tensors[0].shape[0]
    parts = [tensor for tensor in tensors if tensor.shape[0] == size]
    if not parts or not size:
        return []
    whole = {
        place: values
        for place, part in enumerate(parts)
        if part.dim() == 1
        and not (part.is_floating_point() or part.is_complex() or part.dtype is torch.bool)
        and (values := part.tolist()) is not None
    }
    given = {place for place, values in whole.items() if numbers is not None and values == list(numbers)}
    label = max((place for place in whole if place and place not in given), default=None)
    labels = whole[label] if label is not None else [None] * size
    parts = [part for place, part in enumerate(parts) if place not in given and place != label]
    texts = [each for each in _texts(batch) if len(each) == size] if len(leaves) > len(tensors) else []
    if not parts and not texts:
        return []
    crcs = [0] * size
    for part in parts:
        for place, data in enumerate(_bytes_of(part)):
            crcs[place] = zlib.crc32(data, crcs[place])
    for each in texts:
        for place, text in enumerate(each):
            crcs[place] = zlib.crc32(text.encode(errors="replace"), crcs[place])
    return [
        Row(number, crc, label)
        for number, crc, label in zip(numbers or [-1] * size, crcs, labels, strict=True)
    ]


def number_of_rows(arguments: object) -> int:
    """Return how many rows a model is called with: the longest first dimension of its tensors, nested ones included."""
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(arguments)
    return max((len(each) for each in leaves if isinstance(each, torch.Tensor) and each.dim()), default=0)


def sums_of_rows(arguments: object) -> Tensor:
    """Add up the floating-point numbers of each row that a model is called with."""
    import torch
    from torch.utils import _pytree

    size = number_of_rows(arguments)
    parts = [
        each.detach().to("cpu", torch.float64).reshape(size, -1).sum(1)
        for each in _pytree.tree_leaves(arguments)
        if isinstance(each, torch.Tensor) and each.dim() and len(each) == size and each.is_floating_point()
    ]
    return torch.stack(parts).sum(0) if parts and size else torch.zeros(0)


def _bytes_of(part: Tensor) -> Iterator[bytes]:
    import torch

    flat = part.detach().resolve_conj().resolve_neg().reshape(part.shape[0], -1)
    flat = flat[:, :: max(1, -(-flat.shape[1] // _MAX_ELEMENTS))].contiguous()
    for row in flat.view(torch.uint8).numpy() if flat.numel() else ():
        yield row.tobytes()


def _texts(thing: object) -> Iterator[list[str]]:
    """Yield the lists of text in a batch, as the default collate function makes them."""
    if isinstance(thing, Mapping):
        thing = list(thing.values())
    if isinstance(thing, list | tuple):
        if thing and all(isinstance(each, str) for each in thing):
            yield list(thing)
        else:
            for each in thing:
                yield from _texts(each)


def numbered_names(dataset: object) -> dict[str, tuple[str, ...]]:
    """Find the names that a dataset numbers, in the order of their numbers, by attribute (such as `class_to_idx`).

    Read from attributes of the dataset, or one that it wraps, that map text to the numbers 0 to n - 1.
    """
    found: dict[str, tuple[str, ...]] = {}
    for each in _chain(dataset):
        for name, value in list(vars(each).items()) if hasattr(each, "__dict__") else []:
            if type(value) is not dict or not 1 < len(value) <= 100_000:
                continue
            items = [pair for pair in value.items() if type(pair[0]) is str and type(pair[1]) is int]
            if len(items) == len(value) and sorted(n for _, n in items) == list(range(len(items))):
                ordered = sorted(items, key=lambda pair: pair[1])
                found.setdefault(name, tuple(text[:_MAX_NAMES] for text, _ in ordered[:_MAX_NAMES]))
    return found


def epoch_settings(thing: object) -> dict[str, int]:
    """Return a dataset's or sampler's integers named after an epoch or a seed, as the script's process has them."""
    found: dict[str, int] = {}
    for each in _chain(thing):
        for name, value in list(vars(each).items()) if hasattr(each, "__dict__") else []:
            if type(value) is int and ("epoch" in name or "seed" in name):
                found.setdefault(name, value)
    return found


def picked(dataset: object) -> int | None:
    """Compute a checksum of the indices that a Subset, or nested ones, picked; None if there is no Subset."""
    from torch.utils.data import Subset

    crc = None
    for each in _chain(dataset):
        if isinstance(each, Subset):
            crc = zlib.crc32(repr(list(each.indices)).encode(), crc or 0)
    return crc


def _chain(dataset: object) -> Iterator[object]:
    """Yield a dataset and the ones that it wraps."""
    for _ in range(_DEPTH):
        if dataset is None:
            return
        yield dataset
        dataset = getattr(dataset, "dataset", None)
