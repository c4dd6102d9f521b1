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


def over(one: float, other: float) -> float:
    """Return one / other, even if other is zero."""
    return one / other if other else float("inf")


def efficiencies(case: Case) -> dict[str, float]:
    """Return the right efficiency of a step, and those of misconceptions."""
    forward, backward = case["forward"], case["backward"]
    ranks, latency, bandwidth = case["ranks"], case["latency"], case["bandwidth"]
    ready = [bucket["ready"] for bucket in case["buckets"]]
    took = [ring_seconds(bucket["bytes"], ranks, latency, bandwidth) for bucket in case["buckets"]]
    bytes_only = [ring_seconds(bucket["bytes"], ranks, 0, bandwidth) for bucket in case["buckets"]]
    steps = {
        "right": forward + max(backward, _last_end(ready, took)),
        "nothing_hidden": forward + backward + sum(took),
        "everything_hidden": forward + max(backward, sum(took)),
        "all_at_once": forward + max(backward, *(at + t for at, t in zip(ready, took, strict=True))),
        "latency_forgotten": forward + max(backward, _last_end(ready, bytes_only)),
        "latency_once": forward
        + max(backward, _last_end(ready, [*bytes_only[:-1], bytes_only[-1] + took[-1] - bytes_only[-1]])),
        "forward_hides": max(forward + backward, _last_end(ready, took)),
    }
    return {name: (forward + backward) / step for name, step in steps.items()}


def _last_end(ready: Sequence[float], took: Sequence[float]) -> float:
    """Return when the last bucket arrives: each waits until it is ready and the one before it is through."""
    free = 0.0
    for at, seconds in zip(ready, took, strict=True):
        free = max(free, at) + seconds
    return free
