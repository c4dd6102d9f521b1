"""Task 1: how often to save, from the log of a smaller job."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import fmean
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate

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


class Oracle(TypedDict):
    """The best interval, the seconds of a step, and by misconception another interval."""

    best: float
    step: float
    models: dict[str, float]


ThisTrial = Trial[Case, int, Oracle]


class Interval(Task[Case, int, Oracle]):
    """Choose how often to save, from the log of a smaller job."""

    name = "elastic.interval"
    world_sizes = (1,)

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

    def trial(self, answer: Callable[[list[Event], int, int], object], case: Case) -> int:
        given = answer([event.copy() for event in case["log"]], case["ranks_then"], case["ranks_now"])
        found = toys.whole_number(given)
        if found < 1:
            raise WrongKind(str(found))
        return found

    def oracle(self, case: Case, world_size: int) -> Oracle:
        log = case["log"]
        save = fmean(event["seconds"] for event in log if event["event"] == "save")
        step = fmean(event["seconds"] for event in log if event["event"] == "step")
        failures = [event for event in log if event["event"] == "failure"]
        restart = fmean(event["seconds"] for event in failures)
        then = (log[-1]["time"] - log[0]["time"]) / len(failures)
        between = then * case["ranks_then"] / case["ranks_now"]
        best = math.sqrt(2 * save * between) / step
        return {
            "best": best,
            "step": step,
            "models": {
                "job_not_scaled": math.sqrt(2 * save * then) / step,
                "scaled_the_wrong_way": math.sqrt(2 * save * then * case["ranks_now"] / case["ranks_then"])
                / step,
                "restart_counted": math.sqrt(2 * (save + restart) * between) / step,
                "restart_counted/only": math.sqrt(2 * restart * between) / step,
                "seconds_returned": best * step,
                "half_forgotten": math.sqrt(save * between) / step,
            },
        }

    gives_number = gate("It returns a whole number of steps, at least 1.", "with {case}, it returned {given}")

    @check("Saving that often costs at most 2 % more than the best interval.")
    def is_good(self, trial: ThisTrial) -> Miss | None:
        """Counted are saving and redoing, which is what the interval decides."""
        best, seen = trial.oracle["best"], trial.seen[0]
        cost = _cost(seen / best)
        if cost <= _ENOUGH or abs(seen - best) <= 1:
            return None
        return Miss(
            f"with {self.describe(trial.case)}, it saves every {seen} steps; the best is about {best:.0f}, and costs "
            f"{cost:.1f} times less"
            if cost >= 1.1
            else f"with {self.describe(trial.case)}, it saves every {seen} steps; the best is about {best:.0f}"
        )

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        for name in trials[0].oracle["models"]:
            near = [
                math.isclose(t.seen[0], t.oracle["models"][name], rel_tol=0.05, abs_tol=1.0) for t in trials
            ]
            if all(near):
                return name.partition("/")[0]
        return None


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
