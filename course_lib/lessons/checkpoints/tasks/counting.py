"""The metrics of task 1, and each misconception's version of them. Plain Python: used in the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

CLASSES = 4
#: Right answers and samples of each class.
Counts = list[list[int]]


#: An accuracy and a mean recall.
Pair = list[float]


class Batch(TypedDict):
    """The labels of some samples, and what the model takes them for."""

    labels: list[int]
    guesses: list[int]


def counted(batch: Batch) -> Counts:
    """Count the labels and guesses of one batch."""
    counts = [[0, 0] for _ in range(CLASSES)]
    for label, guess in zip(batch["labels"], batch["guesses"], strict=True):
        counts[label][0] += label == guess
        counts[label][1] += 1
    return counts


def added(parts: Sequence[Counts]) -> Counts:
    """Return the sum of counts."""
    return [[sum(part[label][k] for part in parts) for k in (0, 1)] for label in range(CLASSES)]


def scores_of(counts: Counts, absent_as_zero: bool = False) -> tuple[float, float]:
    """Return accuracy and mean recall; classes without a sample are left out or count as 0. NaN without samples."""
    samples = sum(n for _, n in counts)
    recalls = [right / n for right, n in counts if n]
    if not samples:
        return float("nan"), float("nan")
    return (
        sum(right for right, _ in counts) / samples,
        sum(recalls) / (CLASSES if absent_as_zero else len(recalls)),
    )


def predictions(batches: Sequence[Sequence[Batch]], world_size: int) -> dict[str, list[list[Pair]]]:
    """Return what each rank returns in each step, for each way to compute it, as lists of lists of pairs.

    `batches` are those of each step, of each rank.
    """
    ranks = range(world_size)
    own = [[[0, 0] for _ in range(CLASSES)] for _ in ranks]
    spoilt = [[[0, 0] for _ in range(CLASSES)] for _ in ranks]
    found: dict[str, list[list[Pair]]] = {}

    def note(name: str, pairs: Sequence[tuple[float, float]]) -> None:
        for rank in ranks:
            found.setdefault(name, [[] for _ in ranks])[rank].append(list(pairs[rank]))

    for step in batches:
        new = [counted(batch) for batch in step]
        own = [added([own[rank], new[rank]]) for rank in ranks]
        spoilt = [added([spoilt[rank], new[rank]]) for rank in ranks]
        spoilt = [added(spoilt)] * world_size
        total = added(own)
        alone = [scores_of(counts) for counts in own]
        accuracy, recall = scores_of(total)
        mean = tuple(sum(pair[k] for pair in alone) / world_size for k in (0, 1))
        note("right", [(accuracy, recall)] * world_size)
        note("counts_spoilt", [scores_of(counts) for counts in spoilt])
        note("mean_of_means", [(mean[0], mean[1])] * world_size)
        note("mean_of_recalls", [(accuracy, mean[1])] * world_size)
        note("absent_as_zero", [scores_of(total, absent_as_zero=True)] * world_size)
        note("not_reduced", alone)
        note("this_batch_only", [scores_of(added(new))] * world_size)
    return found
