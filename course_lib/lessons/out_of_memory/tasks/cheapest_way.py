"""Task 4: which way out costs least, decided alike by ranks that have seen different failures?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared
from course_lib.tasks.task import Miss, Recognised, Trial, WrongKind, check, gate
from course_lib.tasks.toys import ranks_text

_STEPS = 60
#: The cheapest way is cheaper than the next one by this factor at least.
_MARGIN = 1.25
_TRIES = 20_000

#: By rank, whether each step failed there.
Failures = list[list[bool]]


class Way(TypedDict):
    """What a way costs, in seconds: in each step, and besides for each step that fails."""

    overhead: float
    price: float


class Case(TypedDict):
    """The failures by rank, and the ways by name."""

    failed: Failures
    ways: dict[str, Way]


ThisTrial = Trial[Case, str, dict[str, list[str]]]


class CheapestWay(Compared[Case, str, str]):
    """Choose the cheapest way out, the same on all ranks."""

    name = "out_of_memory.cheapest_way"
    world_sizes = (2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield for each wrong idea a choice that it gets wrong; with its own failures each rank has another."""
        for wanted in _SHARES:
            for _ in range(_TRIES):
                case = _draw_case(chance, world_size)
                chosen = _choices(case, wanted)
                if _is_clear(case) and chosen != _choices(case) and (wanted != _OWN or len({*chosen}) > 1):
                    yield case
                    break
            else:
                raise RuntimeError(f"no case for {wanted} on {world_size} ranks")

    def describe(self, case: Case) -> str:
        ways = "; ".join(
            f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in way.items())
            for name, way in case["ways"].items()
        )
        own = ", ".join(f"{sum(steps)} on rank {rank}" for rank, steps in enumerate(case["failed"]))
        return f"{sum(map(any, zip(*case['failed'], strict=True)))} of {_STEPS} steps failed ({own}); {ways}"

    def trial(self, answer: Callable[[dict[str, dict[str, float]], list[bool]], object], case: Case) -> str:
        ways = {name: {**way} for name, way in case["ways"].items()}
        chosen = answer(ways, [*case["failed"][int(os.environ["RANK"])]])  # type: ignore[arg-type]
        if not isinstance(chosen, str):
            raise toys.wrong_kind(chosen)
        if chosen not in ways:
            raise WrongKind(f"{chosen[:40]!r}")
        return chosen

    def oracle(self, case: Case, world_size: int) -> dict[str, list[str]]:
        return {"right": _choices(case), **{name: _choices(case, name) for name in _SHARES}}

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Accept only a misconception that makes all of these choices: there are so few that one says little."""
        for name in self.by_severity(_SHARES):
            if trials and all(trial.seen == dict(enumerate(trial.oracle[name])) for trial in trials):
                return name.partition("/")[0]
        return None

    gives_name = gate("Every rank returns the name of a way.")

    @check("All ranks choose the same.")
    def same(self, trial: ThisTrial) -> Miss | None:
        """Or they would meet in different collectives."""
        chosen = [trial.seen[rank] for rank in range(trial.world_size)]
        if len(set(chosen)) == 1:
            return None
        said = ", ".join(f"rank {rank} chose {way}" for rank, way in enumerate(chosen))
        return Miss(f"{self.describe(trial.case)}: {said}", _OWN)

    @check("It is the way that costs least.")
    def least(self, trial: ThisTrial) -> Miss | None:
        """In the mean over all steps."""
        right = trial.oracle["right"][0]
        for rank, seen in sorted(trial.seen.items()):
            if seen != right:
                costs = _costs(trial.case["ways"], _share(trial.case["failed"]))
                return Miss(
                    f"{self.describe(trial.case)}: rank {rank} of {ranks_text(trial.world_size)} chose {seen}, "
                    f"which adds {costs[seen]:.3g} s to a step on average; {right} adds {costs[right]:.3g} s"
                )
        return None


def _draw_case(chance: Random, ranks: int) -> Case:
    """Draw failures, some of which strike several ranks in the same step, and ways with costs of all sizes."""
    large, alone = 10 ** chance.uniform(-1.5, -0.2), [10 ** chance.uniform(-2, -0.7) for _ in range(ranks)]
    steps = [chance.random() < large for _ in range(_STEPS)]
    failed = [[(both and chance.random() < 0.8) or chance.random() < own for both in steps] for own in alone]

    def seconds(low: float, high: float) -> float:
        return round(10 ** chance.uniform(low, high), 3)

    ways: dict[str, Way] = {
        "by hand": {"overhead": seconds(-2, 0), "price": 0.0},
        "agree": {"overhead": seconds(-3, -2), "price": seconds(-1, 0.5)},
        "restart": {"overhead": 0.0, "price": seconds(-0.5, 2)},
    }
    order = chance.sample(sorted(ways), len(ways))
    return {"failed": failed, "ways": {name: ways[name] for name in order}}


def _share(failed: Failures) -> float:
    """Return the share of the steps in which any rank failed."""
    return sum(map(any, zip(*failed, strict=True))) / _STEPS


def _costs(ways: dict[str, Way], share: float) -> dict[str, float]:
    return {name: way["overhead"] + share * way["price"] for name, way in ways.items()}


def _choices(case: Case, wrong: str = "") -> list[str]:
    """Return what each rank chooses, rightly or by the wrong idea of this name."""
    failed = case["failed"]
    shares = _SHARES[wrong](failed) if wrong else [_share(failed)] * len(failed)
    costs = [_costs(case["ways"], share) for share in shares]
    return [min(each, key=lambda name, each=each: each[name]) for each in costs]  # type: ignore[misc]


def _is_clear(case: Case) -> bool:
    """Return whether no other way is nearly as cheap as the cheapest."""
    first, second, *_ = sorted(_costs(case["ways"], _share(case["failed"])).values())
    return first * _MARGIN <= second


def _own(failed: Failures) -> list[float]:
    return [sum(steps) / _STEPS for steps in failed]


def _alike(combine: Callable[[list[float]], float]) -> Callable[[Failures], list[float]]:
    """Return the shares of ranks that all combine their own shares in this way."""
    return lambda failed: [combine(_own(failed))] * len(failed)


_OWN = "own_failures"
#: The share of failed steps that each rank goes by, by misconception; a slash and a variant may follow.
_SHARES: dict[str, Callable[[Failures], list[float]]] = {
    _OWN: _own,
    "one_rank": _alike(lambda shares: sum(shares) / len(shares)),
    "one_rank/worst": _alike(max),
    "one_rank/first": _alike(lambda shares: shares[0]),
    "one_rank/all": lambda failed: [sum(map(all, zip(*failed, strict=True))) / _STEPS] * len(failed),
    "counted_twice": _alike(sum),
}
