"""Task 3: how often to synchronise, from what the ranks have measured."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import median
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Trial, check, gate
from course_lib.tasks.toys import short

_STEPS, _REDUCTIONS = 12, 9
#: How much longer the first step takes, and how much measurements scatter.
_WARM_UP, _SCATTER = 20.0, 0.01


class Case(TypedDict):
    """The seconds of each rank's steps and reductions; and the limits of the interval."""

    steps: list[list[float]]
    reductions: list[list[float]]
    share: float
    longest: int


ThisTrial = Trial[Case, int, dict[str, list[int]]]


class SyncInterval(Compared[Case, int, int]):
    """Choose how often to synchronise, from what the ranks have measured."""

    name = "stragglers.sync_interval"

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield small and large shares, an interval cut by `longest`, and reductions that cost next to nothing."""
        for kind in ("free", "large", "cut", "cheap", "none"):
            share = round(chance.uniform(0.26, 0.34) if kind == "large" else chance.uniform(0.03, 0.08), 3)
            interval = {"cheap": 1, "none": 1, "cut": chance.randint(5, 6)}.get(kind, chance.randint(3, 6))
            longest = {"cut": interval - 2, "cheap": 50, "none": 50}.get(kind, 500)
            slowest = chance.randrange(1, world_size) if world_size > 1 else 0
            step = chance.uniform(0.02, 0.2)
            reduction = (interval - 0.6) * share * step / (1 - share) if kind != "none" else 0.0
            own = [step if rank == slowest else step * chance.uniform(0.4, 0.6) for rank in range(world_size)]
            yield {
                "steps": [_scatter(chance, [_WARM_UP * t, *[t] * (_STEPS - 1)]) for t in own],
                "reductions": [_scatter(chance, [reduction + step - t] * _REDUCTIONS) for t in own],
                "share": share,
                "longest": longest,
            }

    def describe(self, case: Case) -> str:
        return f"share={case['share']}, longest={case['longest']}"

    def trial(self, answer: Callable[[list[float], list[float], float, int], object], case: Case) -> int:
        rank = int(os.environ["RANK"])
        return toys.whole_number(
            answer(case["steps"][rank], case["reductions"][rank], case["share"], case["longest"])
        )

    def oracle(self, case: Case, world_size: int) -> dict[str, list[int]]:
        step, reduction = max(map(median, case["steps"])), min(map(median, case["reductions"]))
        interval = math.ceil(reduction * (1 - case["share"]) / (case["share"] * step))
        return {"right": [min(case["longest"], max(1, interval))] * world_size}

    #: An int, or a number that is one.
    gives_number = gate("Every rank returns a whole number.")

    @check("All ranks return the same interval.")
    def agree(self, trial: ThisTrial) -> Miss | None:
        """Or they would wait for each other for ever."""
        found = [trial.seen[rank] for rank in range(trial.world_size)]
        if len(set(found)) > 1:
            observed = (
                f"with {self.describe(trial.case)}, ranks 0 to {trial.world_size - 1} returned {short(found)}"
            )
            return Miss(observed, "own_measurements")
        return None

    @check("It is between 1 and `longest`.")
    def within(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if not 1 <= seen <= trial.case["longest"]:
                known = "bound_ignored" if seen > trial.case["longest"] else None
                return Miss(f"with {self.describe(trial.case)}, rank {rank} returned {seen}", known)
        return None

    #: Of the time of the whole gang.
    right = compared(
        "It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.",
        "with {case} on {gang}, rank {rank} returned {seen}; it is {right}",
    )


def _scatter(chance: Random, values: Sequence[float]) -> list[float]:
    return [round(value * chance.uniform(1 - _SCATTER, 1 + _SCATTER), 6) for value in values]
