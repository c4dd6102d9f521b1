"""Task 3: which way out costs least, given what the ranks have seen?"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared
from course_lib.tasks.task import Miss, Trial, WrongKind, check, gate
from course_lib.tasks.toys import ranks_text

#: The cheapest way is cheaper than the next one by this factor at least.
_MARGIN = 1.25
_TRIES = 20_000


#: What a way costs: `overhead` and `repair` in seconds; `lost_steps`, or `checkpoint_every` so many steps.
Way = dict[str, float]


class Case(TypedDict):
    """By rank its failures in so many steps, and the ways by name."""

    failures: list[int]
    steps: int
    step_seconds: float
    ways: dict[str, Way]


ThisTrial = Trial[Case, str, dict[str, list[str]]]


class CheapestWay(Compared[Case, str, str]):
    """Which way out costs least, given what the ranks have seen?"""

    name = "out_of_memory.cheapest_way"
    world_sizes = (1, 2, 3)
    one_may_fit = False  # there are few ways

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """For each misconception, ways among which it chooses wrongly."""
        for wanted in (item.id for item in self.misconceptions):
            if world_size == 1 and wanted in ("own_failures", "average_rank", "chances_added"):
                continue
            ways = [choose for name, choose in _CHOICES.items() if name.partition("/")[0] == wanted]
            for _ in range(_TRIES):
                case = _drawn(chance, world_size, wanted)
                right = [_cheapest(case, _seconds, _chance(case))] * world_size
                if _clear(case) and all(choose(case) != right for choose in ways):
                    yield case
                    break
            else:
                raise RuntimeError(f"no case for {wanted} on {world_size} ranks")

    def describe(self, case: Case) -> str:
        """What the ranks have seen, and which ways there are."""
        ways = "; ".join(
            f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in way.items())
            for name, way in case["ways"].items()
        )
        return f"failures {case['failures']} in {case['steps']} steps of {case['step_seconds']} s; {ways}"

    def trial(self, answer: Callable[[dict[str, Way], int, int, float], object], case: Case) -> str:
        """What this rank chooses."""
        failures = case["failures"][int(os.environ["RANK"])]
        ways = {name: dict(way) for name, way in case["ways"].items()}
        chosen = answer(ways, failures, case["steps"], case["step_seconds"])
        if not isinstance(chosen, str):
            raise toys.wrong_kind(chosen)
        if chosen not in ways:
            raise WrongKind(f"{chosen[:40]!r}")
        return chosen

    def oracle(self, case: Case, world_size: int) -> dict[str, list[str]]:
        """What each rank should choose, and would by misconceptions."""
        right = [_cheapest(case, _seconds, _chance(case))] * world_size
        return {"right": right, **{name: choose(case) for name, choose in _CHOICES.items()}}

    gives_name = gate("Every rank returns the name of a way.")

    @check("All ranks choose the same.")
    def same(self, trial: ThisTrial) -> Miss | None:
        """Or they would meet in different collectives."""
        chosen = [trial.seen[rank] for rank in range(trial.world_size)]
        if len(set(chosen)) > 1:
            return Miss(
                f"with {self.describe(trial.case)}, the ranks chose {', '.join(chosen)}", "own_failures"
            )
        return None

    @check("It is the way that costs least.")
    def least(self, trial: ThisTrial) -> Miss | None:
        """In the mean over many steps."""
        right = trial.oracle["right"][0]
        for rank, seen in sorted(trial.seen.items()):
            if seen != right:
                costs = {
                    name: _seconds(way, trial.case["step_seconds"], _chance(trial.case))
                    for name, way in trial.case["ways"].items()
                }
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {ranks_text(trial.world_size)} chose {seen}, "
                    f"which adds {costs[seen]:.3g} s to a step on average; {right} adds {costs[right]:.3g} s"
                )
        return None


Cost = Callable[[Way, float, float], float]


def _drawn(chance: Random, ranks: int, wanted: str) -> Case:
    """Ways as there are, with numbers of all sizes; such that what is wanted can make a difference."""
    step = round(chance.uniform(0.1, 1.0), 2)
    steps = 1000
    usual = 10 ** chance.uniform(0, 2.3)
    failures = [max(1, round(usual * chance.uniform(0.1, 2))) for _ in range(ranks)]
    repair, every = (0.0, 2.0), [5, 10, 20, 50]
    if wanted == "chances_added":
        failures = [chance.randint(450, 600) for _ in range(ranks)]
    if wanted == "redone_for_nothing":
        failures = [chance.randint(250, 500) for _ in range(ranks)]
    if wanted == "redoing_fails_too":
        at_least_once = chance.uniform(0.35, 0.65)
        failures = [round(steps * (1 - (1 - at_least_once) ** (1 / ranks)))] * ranks
    if wanted == "failed_step_forgotten":
        repair, every = (-2.0, 0.0), [2, 3]

    def part(low: float, high: float) -> float:
        return round(step * 10 ** chance.uniform(low, high), 4)

    case: Case = {
        "failures": failures,
        "steps": steps,
        "step_seconds": step,
        "ways": {
            "skip": {"overhead": part(-2.5, -1), "repair": part(-2, 0), "lost_steps": 1.0},
            "by hand": {
                "overhead": part(-2, -0.5),
                "repair": part(-3, -1),
                "lost_steps": round(1 / ranks, 4),
            },
            "catch up": {"overhead": part(-2, -0.5), "repair": part(-1, 1), "lost_steps": 0.0},
            "restart": {
                "overhead": 0.0,
                "repair": part(*repair),
                "checkpoint_every": chance.choice(every),
            },
        },
    }
    if wanted == "chances_added":
        _tempt(case, chance, sum(failures) / steps)
    if wanted == "redoing_fails_too":
        _tempt(case, chance, _redoing_fails(case))
    if wanted == "redone_for_nothing":
        _make_redoing_dear(case, chance)
    return case


def _tempt(case: Case, chance: Random, wrong: float) -> None:
    """Make a way dear enough to be wrong, and cheap enough to be chosen by who takes `wrong` for a failure's chance."""
    ways, step = case["ways"], case["step_seconds"]
    others = [way for name, way in ways.items() if name != "catch up"]
    right = min(_seconds(way, step, _chance(case)) for way in others)
    tempted = min(_seconds(way, step, wrong) for way in others)
    ways["catch up"] = {
        "overhead": round(chance.uniform(_MARGIN * right, max(_MARGIN * right, tempted)), 4),
        "repair": round(step * 10 ** chance.uniform(-4, -3), 4),
        "lost_steps": 0.0,
    }


def _make_redoing_dear(case: Case, chance: Random) -> None:
    """A way that adds much to each step and loses many, and one that is cheaper, unless redoing is taken for cheap."""
    ways, step, wrong = case["ways"], case["step_seconds"], _chance(case)
    dear = {
        "overhead": round(step * chance.uniform(0.8, 1.5), 4),
        "repair": round(step * 10 ** chance.uniform(-3, -2), 4),
        "lost_steps": float(chance.randint(6, 12)),
    }
    right, found = _seconds(dear, step, wrong), _redone_for_nothing(dear, step, wrong)
    cheap = chance.uniform(min(found, right / _MARGIN), right / _MARGIN)
    ways["by hand"] = dear
    ways["catch up"] = {
        "overhead": round(0.9 * cheap, 4),
        "repair": round(0.1 * cheap / wrong, 4),
        "lost_steps": 0.0,
    }
    ways["skip"]["overhead"] = ways["skip"]["repair"] = round(2 * right, 4)
    ways["restart"]["repair"] = round(2 * right / wrong, 4)


def _redone_for_nothing(way: Way, step: float, wrong: float) -> float:
    return way["overhead"] + wrong * (way["repair"] + _lost(way) * step)


def _chance(case: Case) -> float:
    """That a step goes wrong, on any rank."""
    well: float = math.prod(1 - failed / case["steps"] for failed in case["failures"])
    return 1 - well


def _redoing_fails(case: Case) -> float:
    """How many failures a step costs, if what is done again fails as often, and so on."""
    return _chance(case) / (1 - _chance(case))


def _lost(way: Way) -> float:
    return way["lost_steps"] if "lost_steps" in way else (way["checkpoint_every"] + 1) / 2


def _seconds(way: Way, step: float, wrong: float) -> float:
    return way["overhead"] + wrong * (way["repair"] + _lost(way) * (step + way["overhead"]))


def _cheapest(case: Case, cost: Cost, wrong: float) -> str:
    ways = case["ways"]
    return min(ways, key=lambda name: cost(ways[name], case["step_seconds"], wrong))


def _clear(case: Case) -> bool:
    """No other way is nearly as cheap as the cheapest."""
    first, second, *_ = sorted(
        _seconds(way, case["step_seconds"], _chance(case)) for way in case["ways"].values()
    )
    return first * _MARGIN <= second


def _everywhere(case: Case, cost: Cost) -> list[str]:
    return [_cheapest(case, cost, _chance(case))] * len(case["failures"])


def _own(case: Case) -> list[str]:
    return [_cheapest(case, _seconds, failed / case["steps"]) for failed in case["failures"]]


def _average(case: Case) -> list[str]:
    ranks = len(case["failures"])
    return [_cheapest(case, _seconds, sum(case["failures"]) / case["steps"] / ranks)] * ranks


def _added(case: Case) -> list[str]:
    return [_cheapest(case, _seconds, sum(case["failures"]) / case["steps"])] * len(case["failures"])


def _losing(steps: Callable[[float], float]) -> Cost:
    """What a way costs if so many steps were lost of those between two checkpoints."""

    def cost(way: Way, step: float, wrong: float) -> float:
        lost = way["lost_steps"] if "lost_steps" in way else steps(way["checkpoint_every"])
        return way["overhead"] + wrong * (way["repair"] + lost * (step + way["overhead"]))

    return cost


#: By misconception; a slash and a variant may follow.
_CHOICES: dict[str, Callable[[Case], list[str]]] = {
    "own_failures": _own,
    "average_rank": _average,
    "overhead_forgotten": lambda case: _everywhere(
        case, lambda way, step, wrong: _seconds(way, step, wrong) - way["overhead"]
    ),
    "lost_work_forgotten": lambda case: _everywhere(
        case, lambda way, step, wrong: way["overhead"] + wrong * way["repair"]
    ),
    "repair_forgotten": lambda case: _everywhere(
        case, lambda way, step, wrong: _seconds(way, step, wrong) - wrong * way["repair"]
    ),
    "whole_interval_lost": lambda case: _everywhere(case, _losing(lambda every: every)),
    "failed_step_forgotten": lambda case: _everywhere(case, _losing(lambda every: every / 2)),
    "failed_step_forgotten/before": lambda case: _everywhere(case, _losing(lambda every: (every - 1) / 2)),
    "redone_for_nothing": lambda case: _everywhere(case, _redone_for_nothing),
    "chances_added": _added,
    "redoing_fails_too": lambda case: (
        [_cheapest(case, _seconds, _redoing_fails(case))] * len(case["failures"])
    ),
}
