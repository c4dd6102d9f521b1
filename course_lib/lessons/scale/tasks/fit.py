"""Task 1: latency and bandwidth of a network, from measured all-reduces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import TypedDict

from course_lib.lessons.scale.tasks.model import least_squares, over, ring_seconds, ring_terms
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Task, Trial, WrongKind, check, gate

#: How far measurements scatter, and how far an answer may be off.
_SCATTER, _TOLERANCE = 0.01, 0.06
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


class Oracle(TypedDict):
    """Latency and bandwidth, and what least squares of absolute errors finds."""

    right: list[float]
    absolute: list[float]


ThisTrial = Trial[Case, list[float], Oracle]


class Fit(Task[Case, list[float], Oracle]):
    """Latency and bandwidth of a network, from measured all-reduces."""

    name = "scale.fit"
    world_sizes = (1,)

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

    def trial(self, answer: Callable[[list[tuple[int, int, float]]], object], case: Case) -> list[float]:
        result = answer([(one["ranks"], one["bytes"], one["seconds"]) for one in case["measurements"]])
        try:
            numbers = toys.numbers(result)
        except WrongKind:
            numbers = []
        if len(numbers) != 2 or not all(map(math.isfinite, numbers)):
            raise toys.wrong_kind(result)
        return numbers

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """Return what was put in, and what least squares of absolute errors finds."""
        rows = [(*ring_terms(one["bytes"], one["ranks"]), one["seconds"]) for one in case["measurements"]]
        latency, per_byte = least_squares(rows)
        return {
            "right": [case["latency"], case["bandwidth"]],
            "absolute": [latency, over(1, per_byte)],
        }

    #: In this order, finite.
    gives_numbers = gate(
        "Two numbers: seconds per round, and bytes per second.", "with {case}, rank {rank} returned {given}"
    )

    @check("The latency is that of one round, up to the scatter of the measurements.")
    def latency(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial, 0, "a latency of {:.3g} s")

    @check("The bandwidth is that of one rank's wire, up to the scatter of the measurements.")
    def bandwidth(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial, 1, "a bandwidth of {:.3g} bytes/s")

    def _miss(self, trial: ThisTrial, which: int, words: str) -> Miss | None:
        seen, right = trial.seen[0][which], trial.oracle["right"][which]
        if abs(seen - right) <= _TOLERANCE * right:
            return None
        observed = f"with {self.describe(trial.case)}, rank 0 returned {words.format(seen)}"
        return Miss(f"{observed}; the measurements were made with {right:.3g}", self._known(trial))

    def _known(self, trial: ThisTrial) -> str | None:
        """Return the misconception that gives these two numbers; with one number of ranks, each is a factor."""
        seen, (latency, bandwidth) = trial.seen[0], trial.oracle["right"]
        if all(
            math.isclose(one, other, rel_tol=1e-3)
            for one, other in zip(seen, trial.oracle["absolute"], strict=True)
        ):
            return "absolute_errors"
        counts = {one["ranks"] for one in trial.case["measurements"]}
        if len(counts) > 1:
            return None
        n = counts.pop()
        rounds = 2 * (n - 1)
        latencies = {"": latency, "latency_of_a_call": rounds * latency, "one_lap": 2 * latency}
        bandwidths = {
            "": bandwidth,
            "whole_tensor": bandwidth * n / rounds,
            "one_lap": bandwidth / 2,
            "shared_wire": bandwidth * n,
            "seconds_a_byte": 1 / bandwidth,
        }
        found = [
            next((name for name, value in values.items() if abs(one - value) <= _TOLERANCE * value), None)
            for one, values in zip(seen, (latencies, bandwidths), strict=True)
        ]
        return next((name for name in found if name), None) if None not in found else None


def _scatter(chance: Random) -> list[float]:
    """Draw each size's error: of two neighbours among the largest, one is too long and one too short.

    So their errors in seconds, which are large, move the latency of a fit that counts seconds.
    """
    sign = chance.choice((-1, 1))
    small = [chance.uniform(-1, 1) for _ in _SIZES[:-3]]
    large = [way * sign * chance.uniform(0.8, 1) for way in (-1, -1, 1)]
    return [_SCATTER * off for off in small + large]
