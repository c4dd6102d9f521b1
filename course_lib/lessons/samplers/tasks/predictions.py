"""The right samples and accuracies, and those of known misconceptions. Runs where no answer has been."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from course_lib.tasks.toys import dealt


def _order(n: int, seed: int) -> list[int]:
    import torch

    generator = torch.Generator()
    generator.manual_seed(seed)
    order: list[int] = torch.randperm(n, generator=generator).tolist()
    return order


def _pad_or_drop(order: list[int], ranks: int, drop_last: bool) -> list[int]:
    """Make the order's length a multiple of `ranks`."""
    if drop_last:
        return order[: len(order) // ranks * ranks]
    wanted = math.ceil(len(order) / ranks) * ranks
    return (order * math.ceil(wanted / max(1, len(order))))[:wanted]


def _deal(order: list[int], ranks: int) -> list[list[int]]:
    return [order[rank::ranks] for rank in range(ranks)]


def shards(n: int, ranks: int, epoch: int, seed: int, drop_last: bool) -> dict[str, list[list[int]]]:
    """Return the shards of all ranks: `right` by torch's DistributedSampler, and by misconception."""
    order = _order(n, seed + epoch)
    whole = _pad_or_drop(order, ranks, drop_last)
    block = len(whole) // ranks
    own = [
        _pad_or_drop(_order(n, seed + epoch + rank), ranks, drop_last)[rank::ranks] for rank in range(ranks)
    ]
    missing = math.ceil(n / ranks) * ranks - n
    too_short = whole if drop_last else order + order[:missing]
    return {
        "right": [dealt(n, ranks, rank, epoch, seed=seed, drop_last=drop_last) for rank in range(ranks)],
        "epoch_ignored": _deal(_pad_or_drop(_order(n, seed), ranks, drop_last), ranks),
        "seed_ignored": _deal(_pad_or_drop(_order(n, epoch), ranks, drop_last), ranks),
        "rank_in_seed": own,
        "not_shuffled": _deal(_pad_or_drop(list(range(n)), ranks, drop_last), ranks),
        "contiguous_blocks": [whole[rank * block : (rank + 1) * block] for rank in range(ranks)],
        "no_padding": _deal(whole if drop_last else order, ranks),
        "padding_too_short": _deal(too_short, ranks),
        "drop_last_ignored": _deal(_pad_or_drop(order, ranks, False), ranks),
    }


def accuracies(hits: Sequence[bool], ranks: int) -> dict[str, list[float]]:
    """Return the accuracy that each rank should return (`right`), and returns under each misconception.

    A misconception can show in several ways; their names begin with its id, as in `padding_counted/shuffled`.
    """
    n = len(hits)
    stored = list(range(n))
    shuffled = _order(n, 0)
    blocks = [stored[rank * n // ranks : (rank + 1) * n // ranks] for rank in range(ranks)]
    models = {"right": [sum(hits) / n] * ranks}
    splits = {"dealt": _deal(stored, ranks), "blocks": blocks, "shuffled": _deal(shuffled, ranks)}
    for name, split in splits.items():
        for empty in (math.nan, 0.0):
            own = [_accuracy(hits, part, empty) for part in split]
            models[f"mean_of_means/{name}/{empty}"] = [sum(own) / ranks] * ranks
            models[f"summed_not_averaged/{name}/{empty}"] = [sum(own)] * ranks
            models[f"not_reduced/{name}/{empty}"] = own
    for name, order in (("stored", stored), ("shuffled", shuffled)):
        padded, cut = _pad_or_drop(order, ranks, False), _pad_or_drop(order, ranks, True)
        own = [_accuracy(hits, part, 0.0) for part in _deal(padded, ranks)]
        models[f"padding_counted/{name}"] = [_accuracy(hits, padded, 0.0)] * ranks
        models[f"not_reduced/padded/{name}"] = own
        models[f"summed_not_averaged/padded/{name}"] = [sum(own)] * ranks
        for empty in (math.nan, 0.0):
            models[f"samples_dropped/{name}/{empty}"] = [_accuracy(hits, cut, empty)] * ranks
    return models


def _accuracy(hits: Sequence[bool], part: Sequence[int], empty: float) -> float:
    return sum(hits[index] for index in part) / len(part) if part else empty


def streamed(samples: Sequence[int], ranks: int, workers: int) -> dict[str, list[list[int]]]:
    """Return what each rank reads of a stream, sorted, under each misconception; for the names see `accuracies`.

    A rank has as many readers as its loader has workers; without workers it reads itself.
    """
    readers = max(1, workers)
    starts: dict[str, Callable[[int, int], int]] = {
        "sum": lambda rank, worker: rank + worker,
        "rank": lambda rank, worker: rank,
        "worker": lambda rank, worker: worker,
        "product": lambda rank, worker: rank * worker,
    }
    models: dict[str, list[list[int]]] = {}
    for rest, used in (("", list(samples)), ("/rounds", list(samples[: len(samples) // ranks * ranks]))):
        models[f"nothing_split{rest}"] = [used * readers] * ranks
        models[f"workers_ignored{rest}"] = [part * readers for part in _deal(used, ranks)]
        models[f"ranks_ignored{rest}"] = [used] * ranks
        for how, first in starts.items():
            models[f"readers_collide/{how}{rest}"] = [
                [x for worker in range(readers) for x in used[first(rank, worker) :: ranks * readers]]
                for rank in range(ranks)
            ]
    whole = list(samples[: len(samples) // (ranks * readers) * ranks * readers])
    by_reader = _deal(whole, ranks * readers)
    models["too_much_dropped/dealt"] = _deal(whole, ranks)
    models["too_much_dropped/blocks"] = [
        [x for part in by_reader[rank * readers : (rank + 1) * readers] for x in part]
        for rank in range(ranks)
    ]
    return {name: [sorted(part) for part in parts] for name, parts in models.items()}
