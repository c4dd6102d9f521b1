"""Task 1: latency and bandwidth of a network, from measured all-reduces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import TypedDict

from course_lib.lessons.scale.tasks.model import ring_seconds
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import WrongKind, gate

#: How far measurements scatter.
_SCATTER = 0.01
_SIZES = tuple(2**power for power in range(10, 29, 2))


class Measurement(TypedDict):
    """An all-reduce of so many bytes."""

    ranks: int
    bytes: int
    seconds: float


class Case(TypedDict):
    """Measured all-reduces, and the network with which they were made."""

    measurements: list[Measurement]
    latency: float
    bandwidth: float


class Network(TypedDict, total=False):
    """The two numbers."""

    latency: float
    bandwidth: float


class Fit(Compared[Case, Network, Network]):
    """Latency and bandwidth of a network, from measured all-reduces."""

    name = "scale.fit"
    world_sizes = (1,)
    tolerance = Tolerance(0.0, 0.06)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield two networks measured on one number of ranks, which separates misconceptions, and one on several."""
        for counts in ((8,), (chance.choice((12, 16)),), (2, 4, chance.choice((8, 32)))):
            latency, bandwidth = chance.uniform(3e-6, 1.2e-5), chance.uniform(2e9, 1e10)
            measured = [
                Measurement(
                    ranks=n, bytes=size, seconds=ring_seconds(size, n, latency, bandwidth) * (1 + scatter)
                )
                for n in counts
                for size, scatter in zip(_SIZES, _scatter(chance), strict=True)
            ]
            chance.shuffle(measured)
            yield {"measurements": measured, "latency": latency, "bandwidth": bandwidth}

    def describe(self, case: Case) -> str:
        counts = sorted({one["ranks"] for one in case["measurements"]})
        return f"{len(case['measurements'])} measurements on {' and '.join(map(str, counts))} ranks"

    def trial(self, answer: Callable[[list[tuple[int, int, float]]], object], case: Case) -> Network:
        result = answer([(one["ranks"], one["bytes"], one["seconds"]) for one in case["measurements"]])
        try:
            numbers = toys.numbers(result)
        except WrongKind:
            numbers = []
        if len(numbers) != 2 or not all(map(math.isfinite, numbers)):
            raise toys.wrong_kind(result)
        return {"latency": numbers[0], "bandwidth": numbers[1]}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Network]]:
        """Return what was put in; with several numbers of ranks, ways to fit that have the same mistake differ."""
        one_count = len({one["ranks"] for one in case["measurements"]}) == 1
        return {"right": [{"latency": case["latency"], "bandwidth": case["bandwidth"]} if one_count else {}]}

    #: In this order, finite.
    gives_numbers = gate(
        "Two numbers: seconds per round, and bytes per second.", "with {case}, rank {rank} returned {given}"
    )

    latency = compared(
        "The latency is that of one round, up to the scatter of the measurements.",
        "with {case}, rank {rank} returned a latency of {seen:.3g} s; the network has {right:.3g}",
        of="latency",
        right=lambda trial, _: trial.case["latency"],
    )
    bandwidth = compared(
        "The bandwidth is that of one rank's wire, up to the scatter of the measurements.",
        "with {case}, rank {rank} returned a bandwidth of {seen:.3g} bytes/s; the network has {right:.3g}",
        of="bandwidth",
        right=lambda trial, _: trial.case["bandwidth"],
    )


def _scatter(chance: Random) -> list[float]:
    """Draw each size's error: of two neighbours among the largest, one is too long and one too short.

    So their errors in seconds, which are large, move the latency of a fit that counts seconds.
    """
    sign = chance.choice((-1, 1))
    small = [chance.uniform(-1, 1) for _ in _SIZES[:-3]]
    large = [way * sign * chance.uniform(0.8, 1) for way in (-1, -1, 1)]
    return [_SCATTER * off for off in small + large]
