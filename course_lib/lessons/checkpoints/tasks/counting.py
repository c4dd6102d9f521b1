"""The metrics of task 1. Plain Python: used in the oracle."""

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


def scores_of(counts: Counts) -> Pair:
    """Return accuracy and mean recall, over the classes that have samples."""
    recalls = [right / n for right, n in counts if n]
    return [sum(right for right, _ in counts) / sum(n for _, n in counts), sum(recalls) / len(recalls)]
