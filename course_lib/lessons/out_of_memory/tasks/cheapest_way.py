"""Task 3: which way out costs least, given what the ranks have seen?"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import fmean
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared
from course_lib.tasks.task import Miss, Recognised, Trial, WrongKind, check, gate
from course_lib.tasks.toys import ranks_text

#: The cheapest way is cheaper than the next one by this factor at least.
_MARGIN = 1.25
_TRIES = 20_000


#: What a way costs: `overhead` and `repair` in seconds; `lost_steps`, or `checkpoint_every` so many steps.
Way = dict[str, float]


class Case(TypedDict):
    """Failures by rank in so many steps, and the ways by name."""

    failures: list[int]
    steps: int
    step_seconds: float
    ways: dict[str, Way]


ThisTrial = Trial[Case, str, dict[str, list[str]]]


class CheapestWay(Compared[Case, str, str]):
    """Choose the cheapest way out, given what the ranks have seen."""

    name = "out_of_memory.cheapest_way"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield for each misconception a choice that it gets wrong."""
        for wanted in (item.id for item in self.misconceptions):
            if world_size == 1 and wanted in ("own_failures", "one_rank", "chances_added"):
                continue
            ways = [choose for name, choose in _CHOICES.items() if name.partition("/")[0] == wanted]
            for _ in range(_TRIES):
                case = _draw_case(chance, world_size, wanted)
                right = [_cheapest(case, _seconds, _chance(case))] * world_size
                if _is_clear(case) and all(choose(case) != right for choose in ways):
                    yield case
                    break
            else:
                raise RuntimeError(f"no case for {wanted} on {world_size} ranks")

    def describe(self, case: Case) -> str:
        ways = "; ".join(
            f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in way.items())
            for name, way in case["ways"].items()
        )
        return f"failures {case['failures']} in {case['steps']} steps of {case['step_seconds']} s; {ways}"

    def trial(self, answer: Callable[[dict[str, Way], int, int, float], object], case: Case) -> str:
        failures = case["failures"][int(os.environ["RANK"])]
        ways = {name: dict(way) for name, way in case["ways"].items()}
        chosen = answer(ways, failures, case["steps"], case["step_seconds"])
        if not isinstance(chosen, str):
            raise toys.wrong_kind(chosen)
        if chosen not in ways:
            raise WrongKind(f"{chosen[:40]!r}")
        return chosen

    def oracle(self, case: Case, world_size: int) -> dict[str, list[str]]:
        right = [_cheapest(case, _seconds, _chance(case))] * world_size
        return {"right": right, **{name: choose(case) for name, choose in _CHOICES.items()}}

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Accept only a misconception that makes all of these choices: there are so few that one says little."""
        for name in self.by_severity(_CHOICES):
            if trials and all(trial.seen == dict(enumerate(trial.oracle[name])) for trial in trials):
                return name.partition("/")[0]
        return None

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


def _draw_case(chance: Random, ranks: int, wanted: str) -> Case:
    """Draw ways with numbers of all sizes, such that `wanted` can make a difference."""
    step = round(chance.uniform(0.1, 1.0), 2)
    steps = 1000
    usual = 10 ** chance.uniform(0, 2.3)
    failures = [max(1, round(usual * chance.uniform(0.1, 2))) for _ in range(ranks)]
    repair, every = (0.0, 2.0), [5, 10, 20, 50]
    if wanted == "chances_added":
        failures = [round(steps / ranks * chance.uniform(0.9, 1.2)) for _ in range(ranks)]
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
        _tempt(case, chance, min(1.0, sum(failures) / steps))
    if wanted == "redoing_fails_too":
        _tempt(case, chance, _redoing_fails(case))
    if wanted == "redone_for_nothing":
        _add_costly_ways(case, chance)
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


def _add_costly_ways(case: Case, chance: Random) -> None:
    """Add a way that loses many steps, and one that is cheaper unless redoing steps is taken for free."""
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
    """Return the probability that a step fails on any rank."""
    well: float = math.prod(1 - failed / case["steps"] for failed in case["failures"])
    return 1 - well


def _redoing_fails(case: Case) -> float:
    """Return how many failures a step costs, if its repetition fails as often, and so on."""
    return _chance(case) / (1 - _chance(case))


def _lost(way: Way) -> float:
    return way["lost_steps"] if "lost_steps" in way else (way["checkpoint_every"] + 1) / 2


def _seconds(way: Way, step: float, wrong: float) -> float:
    return way["overhead"] + wrong * (way["repair"] + _lost(way) * (step + way["overhead"]))


def _cheapest(case: Case, cost: Cost, wrong: float) -> str:
    ways = case["ways"]
    return min(ways, key=lambda name: cost(ways[name], case["step_seconds"], wrong))


def _is_clear(case: Case) -> bool:
    """Return whether no other way is nearly as cheap as the cheapest."""
    first, second, *_ = sorted(
        _seconds(way, case["step_seconds"], _chance(case)) for way in case["ways"].values()
    )
    return first * _MARGIN <= second


def _everywhere(case: Case, cost: Cost) -> list[str]:
    return [_cheapest(case, cost, _chance(case))] * len(case["failures"])


def _own(case: Case) -> list[str]:
    return [_cheapest(case, _seconds, failed / case["steps"]) for failed in case["failures"]]


def _with(wrong: Callable[[list[float]], float]) -> Callable[[Case], list[str]]:
    """Return the choice of all ranks that combine their probabilities in this way."""
    return lambda case: (
        [_cheapest(case, _seconds, wrong([failed / case["steps"] for failed in case["failures"]]))]
        * len(case["failures"])
    )


def _losing(steps: Callable[[float], float]) -> Cost:
    """Return the cost of a way that loses so many of the steps between two checkpoints."""

    def cost(way: Way, step: float, wrong: float) -> float:
        lost = way["lost_steps"] if "lost_steps" in way else steps(way["checkpoint_every"])
        return way["overhead"] + wrong * (way["repair"] + lost * (step + way["overhead"]))

    return cost


#: By misconception; a slash and a variant may follow.
_CHOICES: dict[str, Callable[[Case], list[str]]] = {
    "own_failures": _own,
    "one_rank": _with(fmean),
    "one_rank/worst": _with(max),
    "one_rank/best": _with(min),
    "one_rank/first": _with(lambda chances: chances[0]),
    "one_rank/all": _with(math.prod),
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
    "chances_added": _with(sum),
    "chances_added/capped": _with(lambda chances: min(1.0, sum(chances))),
    "redoing_fails_too": lambda case: (
        [_cheapest(case, _seconds, _redoing_fails(case))] * len(case["failures"])
    ),
}
