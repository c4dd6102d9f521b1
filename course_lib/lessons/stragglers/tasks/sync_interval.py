"""Task 3: how often to synchronise, from what the ranks have measured."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from statistics import fmean, median
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import (
    Miss,
    Recognised,
    Task,
    Trial,
    check,
    gate,
    models,
    recognise_by_models,
)
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


#: For `right` and for each misconception, the interval of each rank.
Oracle = dict[str, list[int]]
ThisTrial = Trial[Case, int, Oracle]


class SyncInterval(Task[Case, int, Oracle]):
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

    def oracle(self, case: Case, world_size: int) -> Oracle:
        return _intervals(case)

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
            return Miss(observed)
        return None

    @check("It is between 1 and `longest`.")
    def within(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if not 1 <= seen <= trial.case["longest"]:
                known = "bound_ignored" if seen > trial.case["longest"] and self._well(trial, seen) else None
                return Miss(f"with {self.describe(trial.case)}, rank {rank} returned {seen}", known)
        return None

    #: Of the time of the whole gang.
    right = compared(
        "It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.",
        "with {case} on {gang}, rank {rank} returned {seen}; it is {right}",
    )

    def _well(self, trial: ThisTrial, seen: int) -> bool:
        return seen == trial.oracle["bound_ignored"][0]

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        both = {id(trial): _together(trial.case) for trial in trials}

        def predicts(trial: ThisTrial, name: str) -> list[int]:
            return trial.oracle[name]

        def several(trial: ThisTrial, name: str) -> list[int]:
            return both[id(trial)][name]

        found = recognise_by_models(
            trials,
            lambda trial: trial.oracle["right"],
            models(self.by_severity(trials[0].oracle), predicts),
            operator.eq,
            together=models(both[id(trials[0])], several),
            alone=False,
        )
        ranks_differ = any(len(set(trial.seen.values())) > 1 for trial in trials)
        return found or ("own_measurements" if ranks_differ else None)


def _scatter(chance: Random, values: Sequence[float]) -> list[float]:
    return [round(value * chance.uniform(1 - _SCATTER, 1 + _SCATTER), 6) for value in values]


def _intervals(case: Case) -> Oracle:
    """Return the right interval for each rank, and those of misconceptions (`id` or `id/variant`)."""
    steps, reductions = _steps(case), _reductions(case)

    def with_(step: str = "", reduction: str = "", **kwargs: bool) -> list[int]:
        return _choose(case, steps[step], reductions[reduction], **kwargs)

    return {
        "right": with_(),
        "own_measurements": with_("own_measurements", "own_measurements"),
        "own_measurements/mean": with_("own_measurements + warm_up_counted", "own_measurements"),
        "rank_0_decides": with_("rank_0_decides", "rank_0_decides"),
        "waiting_counted/longest": with_(reduction="waiting_counted"),
        "waiting_counted/mean": with_(reduction="waiting_counted/mean"),
        "average_rank/both": with_("average_rank", "waiting_counted/mean"),
        "average_rank/step": with_("average_rank"),
        "average_rank/fastest": with_("average_rank/fastest"),
        "warm_up_counted/mean": with_("warm_up_counted"),
        "warm_up_counted/longest": with_("warm_up_counted/longest"),
        "reduction_left_out": with_(whole_round=False),
        "bound_ignored": with_(bounded=False),
        "rounded_down": with_(up=False),
    }


def _steps(case: Case) -> dict[str, list[float]]:
    """Return the step time that each rank uses: rightly, and by misconceptions (two are joined by a plus)."""
    typical, means = [median(one) for one in case["steps"]], [fmean(one) for one in case["steps"]]
    same = {
        "": max(typical),
        "average_rank": fmean(typical),
        "average_rank/fastest": min(typical),
        "rank_0_decides": typical[0],
        "warm_up_counted": max(means),
        "warm_up_counted/longest": max(map(max, case["steps"])),
        "average_rank + warm_up_counted": fmean(means),
    }
    own = {"own_measurements": typical, "own_measurements + warm_up_counted": means}
    return own | {name: [value] * len(typical) for name, value in same.items()}


def _reductions(case: Case) -> dict[str, list[float]]:
    """Return the reduction time that each rank uses, with keys as in `_steps`."""
    typical = [median(one) for one in case["reductions"]]
    same = {
        "": min(typical),
        "rank_0_decides": typical[0],
        "waiting_counted": max(typical),
        "waiting_counted/mean": fmean(typical),
    }
    return {"own_measurements": typical} | {name: [value] * len(typical) for name, value in same.items()}


def _choose(
    case: Case,
    steps: Sequence[float],
    reductions: Sequence[float],
    *,
    whole_round: bool = True,
    up: bool = True,
    bounded: bool = True,
) -> list[int]:
    """Return the interval of each rank."""
    share = case["share"]
    whole = 1 - share if whole_round else 1.0
    rounded = math.ceil if up else math.floor
    longest = case["longest"] if bounded else math.inf
    return [
        int(min(longest, max(1, rounded(reduction * whole / (share * step)))))
        for step, reduction in zip(steps, reductions, strict=True)
    ]


def _together(case: Case) -> dict[str, list[int]]:
    """Return the intervals of two or three misconceptions at once, joined by a plus; the fewest first."""
    steps, reductions = _steps(case), _reductions(case)
    found = {}
    for (step, reduction), (whole_round, up, bounded) in product(
        product(steps, reductions), product((True, False), repeat=3)
    ):
        names = [part.partition("/")[0] for part in (*step.split(" + "), reduction)]
        names += [
            name
            for name, done in (
                ("reduction_left_out", whole_round),
                ("rounded_down", up),
                ("bound_ignored", bounded),
            )
            if not done
        ]
        ids = list(dict.fromkeys(filter(None, names)))
        if len(ids) in (2, 3):
            key = (len(ids), " + ".join(ids), step, reduction)
            found[key] = _choose(
                case, steps[step], reductions[reduction], whole_round=whole_round, up=up, bounded=bounded
            )
    return {
        f"{ids}/{step}/{reduction}": found[count, ids, step, reduction]
        for count, ids, step, reduction in sorted(found)
    }
