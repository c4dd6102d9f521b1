"""Task 1: how often to save, from the log of a smaller job."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from statistics import fmean
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Trial, WrongKind, check, gate

#: What saving and redoing may cost, as a multiple of the least.
_ENOUGH = 1.02


class Event(TypedDict):
    """A line of a job's log: a `step`, a `save`, a `failure` or the `end`; when, and how many seconds it took."""

    event: str
    time: float
    seconds: float


class Case(TypedDict):
    """The arguments of the answer."""

    log: list[Event]
    ranks_then: int
    ranks_now: int


ThisTrial = Trial[Case, float, dict[str, list[float]]]


class Interval(Compared[Case, float, float]):
    """Choose how often to save, from the log of a smaller job."""

    name = "elastic.interval"
    world_sizes = (1,)
    #: Two answers that differ by less have estimated the same interval in two ways.
    tolerance = Tolerance(1.0, 0.05)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield logs with few failures, of long and of short jobs, for new jobs that are larger or smaller."""
        for grows in (True, False, True):
            factor = chance.choice((4, 8, 16))
            then = chance.choice((16, 32)) if grows else 32 * factor
            step = chance.uniform(0.4, 3.0)
            save, restart = chance.uniform(4, 9), chance.uniform(120, 300)
            now = then * factor if grows else then // factor
            yield {
                "log": _log(chance, step, save, restart),
                "ranks_then": then,
                "ranks_now": now,
            }

    def describe(self, case: Case) -> str:
        return f"ranks_then={case['ranks_then']}, ranks_now={case['ranks_now']}"

    def trial(self, answer: Callable[[list[Event], int, int], object], case: Case) -> float:
        given = answer([event.copy() for event in case["log"]], case["ranks_then"], case["ranks_now"])
        found = toys.whole_number(given)
        if found < 1:
            raise WrongKind(str(found))
        return float(found)

    def oracle(self, case: Case, world_size: int) -> dict[str, list[float]]:
        """Return the best interval."""
        log = case["log"]
        save, step = (
            fmean(event["seconds"] for event in log if event["event"] == what) for what in ("save", "step")
        )
        failures = sum(event["event"] == "failure" for event in log)
        between = (log[-1]["time"] - log[0]["time"]) / failures * case["ranks_then"] / case["ranks_now"]
        return {"right": [math.sqrt(2 * save * between) / step]}

    gives_number = gate("It returns a whole number of steps, at least 1.", "with {case}, it returned {given}")

    @check("Saving that often costs at most 2 % more than the best interval.")
    def is_good(self, trial: ThisTrial) -> Miss | None:
        """Counted are saving and redoing, which is what the interval decides."""
        best, seen = trial.oracle["right"][0], trial.seen[0]
        cost = _cost(seen / best)
        if cost <= _ENOUGH or abs(seen - best) <= 1:
            return None
        return Miss(
            f"with {self.describe(trial.case)}, it saves every {seen:.0f} steps; the best is about {best:.0f}, and "
            f"costs {cost:.1f} times less"
            if cost >= 1.1
            else f"with {self.describe(trial.case)}, it saves every {seen:.0f} steps; the best is about {best:.0f}"
        )


def _cost(ratio: float) -> float:
    """Return the cost of saving and redoing at `ratio` times the best interval, as a multiple of the best cost."""
    return (ratio + 1 / ratio) / 2


def _moments(chance: Random, length: float) -> list[float]:
    """Draw times of failures; the mean time between them is about the whole time divided by their number."""
    count = chance.randint(5, 9)
    while True:
        moments = sorted(chance.uniform(0.02, 0.98) * length for _ in range(count))
        if 0.9 < (moments[-1] - moments[0]) / (count - 1) / (length / count) < 1.1:
            return moments


def _log(chance: Random, step: float, save: float, restart: float) -> list[Event]:
    """Draw a day of a job: some of its steps, its saves and its failures; times in seconds."""
    log: list[Event] = []
    now = 0.0
    length = chance.uniform(80_000, 90_000)
    failures = _moments(chance, length)

    def note(event: str, seconds: float) -> None:
        scattered = round(seconds * chance.uniform(0.97, 1.03), 3)
        log.append({"event": event, "time": round(now, 1), "seconds": scattered})

    for moment in [*failures, length]:
        while now < moment:
            note("step", step)
            note("save", save)
            now += length / 40
        now = moment
        if moment < length:
            note("failure", restart)
    log.append({"event": "end", "time": round(length, 1), "seconds": 0.0})
    return log
