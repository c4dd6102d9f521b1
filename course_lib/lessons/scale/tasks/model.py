"""The model of lesson 15: a ring all-reduce with two numbers, and a step whose buckets it delays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Bucket(TypedDict):
    """A bucket: when it is ready, in seconds from the beginning of backward; and its bytes."""

    ready: float
    bytes: int


class Case(TypedDict):
    """A job: the seconds of a step's halves, its buckets, and the ranks with their network."""

    forward: float
    backward: float
    buckets: list[Bucket]
    ranks: int
    latency: float
    bandwidth: float


def ring_terms(size: float, ranks: int) -> tuple[float, float]:
    """Return the factors of latency and of seconds per byte."""
    rounds = 2 * (ranks - 1)
    return rounds, rounds * size / ranks


def ring_seconds(size: float, ranks: int, latency: float, bandwidth: float) -> float:
    """Return the seconds of one ring all-reduce of `size` bytes."""
    rounds, sent = ring_terms(size, ranks)
    return rounds * latency + sent / bandwidth


def least_squares(rows: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Return a and b that come nearest to a * x + b * y = t, for rows (x, y, t)."""
    xx = sum(x * x for x, _, _ in rows)
    xy = sum(x * y for x, y, _ in rows)
    yy = sum(y * y for _, y, _ in rows)
    xt = sum(x * t for x, _, t in rows)
    yt = sum(y * t for _, y, t in rows)
    whole = xx * yy - xy * xy
    return (xt * yy - yt * xy) / whole, (yt * xx - xt * xy) / whole


def efficiency(case: Case) -> float:
    """Return the time of a step on one rank, divided by that of a step of this job."""
    forward, backward = case["forward"], case["backward"]
    took = [
        ring_seconds(bucket["bytes"], case["ranks"], case["latency"], case["bandwidth"])
        for bucket in case["buckets"]
    ]
    end = _last_end([bucket["ready"] for bucket in case["buckets"]], took)
    return (forward + backward) / (forward + max(backward, end))


def _last_end(ready: Sequence[float], took: Sequence[float]) -> float:
    """Return when the last bucket arrives: each waits until it is ready and the one before it is through."""
    free = 0.0
    for at, seconds in zip(ready, took, strict=True):
        free = max(free, at) + seconds
    return free
