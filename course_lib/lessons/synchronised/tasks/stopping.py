"""Early stopping by the validation loss: rightly, and as mistakes have it.

Losses are drawn so that the mistakes show. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypedDict

#: The losses of one rank's samples after one epoch; None is nan.
Losses = list[float | None]
_NAN = math.nan
#: A loss that is better or worse is so by more than rounding.
_MARGIN = 2e-4
#: So many epochs more than asked for have losses, for an answer that goes on.
_MORE = 16


class Case(TypedDict):
    """Losses of validation samples, by epoch and rank; `how` says what is special about them."""

    how: str
    losses: list[list[Losses]]
    patience: int
    most: int


@dataclass(frozen=True)
class Rules:
    """Rules by which a training decides.

    Attributes:
        mean: what an epoch is judged by. late: epochs that it waits beyond `patience`.
        nan: no better than the best; or it is the new best, and everything is better, or nothing ever is (`sticks`); or
            it is no better, and nothing ever is after it (`spoils`).
    """

    mean: Callable[[Sequence[Losses]], float]
    late: int = 0
    nan: Literal["worse", "better", "sticks", "spoils"] = "worse"


def mean_of(ranks: Sequence[Losses]) -> float:
    """Return the mean over all samples of these ranks; nan where there are none."""
    losses = [_NAN if loss is None else loss for rank in ranks for loss in rank]
    return sum(losses) / len(losses) if losses else _NAN


def mean_of_means(ranks: Sequence[Losses]) -> float:
    """Return the mean in which every rank counts the same; nan where one has no samples."""
    return sum(mean_of([rank]) for rank in ranks) / len(ranks)


def _without_empty(ranks: Sequence[Losses]) -> float:
    return mean_of_means([rank for rank in ranks if rank])


def _without_nan(ranks: Sequence[Losses]) -> float:
    return mean_of([[loss for loss in rank if loss is not None] for rank in ranks])


def _nan_as_0(ranks: Sequence[Losses]) -> float:
    return mean_of([[loss or 0.0 for loss in rank] for rank in ranks])


def _of_rank_0(ranks: Sequence[Losses]) -> float:
    return mean_of(ranks[:1])


def _of_worst(ranks: Sequence[Losses]) -> float:
    means = [mean_of([rank]) for rank in ranks]
    return _NAN if any(map(math.isnan, means)) else max(means)


#: By misconception; a slash and a variant may follow.
RULES = {
    "right": Rules(mean_of),
    "one_rank_decides/rank_0": Rules(_of_rank_0),
    "one_rank_decides/worst": Rules(_of_worst),
    "mean_of_means": Rules(mean_of_means),
    "mean_of_means/without_empty": Rules(_without_empty),
    "nan_best/better": Rules(mean_of, nan="better"),
    "nan_best/sticks": Rules(mean_of, nan="sticks"),
    "nan_best/spoils": Rules(mean_of, nan="spoils"),
    "nan_left_out": Rules(_without_nan),
    "nan_left_out/as_0": Rules(_nan_as_0),
    "patience_off/late": Rules(mean_of, late=1),
    "patience_off/early": Rules(mean_of, late=-1),
}
_VOTES = ("votes/any", "votes/all")
#: By what is special about a case: the rules that it must tell from the right ones.
_SHOWN: dict[str, tuple[str, ...]] = {
    "plain": ("patience_off/late", "patience_off/early"),
    "improving": (),
    "apart": ("one_rank_decides/rank_0", "mean_of_means", *_VOTES),
    "empty": ("mean_of_means",),
    "nan": ("nan_best/better", "nan_best/sticks", "nan_left_out"),
    "nan at first": ("nan_best/sticks", "nan_best/spoils"),
}


def stops(case: Case) -> dict[str, int]:
    """Return how many epochs are trained, by misconception."""
    found = {name: _stop(case, rules) for name, rules in RULES.items()}
    if len(case["losses"][0]) > 1:
        up = [[wait >= case["patience"] for wait in _waits(own, RULES["right"])] for own in _own(case)]
        for name, decides in zip(_VOTES, (any, all), strict=True):
            votes = [decides(flags) for flags in zip(*up, strict=True)][: case["most"]]
            found[name] = votes.index(True) + 1 if True in votes else case["most"]
    return found


def drawn(how: str, world_size: int, chance: Random) -> Case:
    """Draw a case of this kind in which its misconceptions (`_SHOWN`) show, and no rounding does."""
    while True:
        case = _any(how, world_size, chance)
        found = stops(case)
        right = found["right"]
        if not _is_clear(case) or any(found[name] == right for name in _SHOWN[how]):
            continue
        if how == "improving" and right == case["most"]:
            return case
        if how != "improving" and 4 <= right < case["most"] and (how != "apart" or _leaves_first(case)):
            return case


def _any(how: str, world_size: int, chance: Random) -> Case:
    sizes = [chance.choice((2, 3)) + 5 * rank for rank in range(world_size)]
    if how == "empty":
        sizes[0] = 0
    chance.shuffle(sizes)
    patience, most = chance.randint(2, 3), chance.randint(9, 11)
    # Each rank's loss falls until an epoch of its own, and rises then.
    turns = [chance.uniform(1, 8) + (most if how == "improving" else 0) for _ in sizes]
    losses: list[list[Losses]] = []
    for epoch in range(most + _MORE):
        levels = [0.2 * abs(epoch - turn) + chance.uniform(0.3, 0.8) for turn in turns]
        losses.append(
            [
                [round(level + chance.uniform(0, 0.3), 3) for _ in range(size)]
                for level, size in zip(levels, sizes, strict=True)
            ]
        )
    if how.startswith("nan"):
        broken = 0 if how == "nan at first" else chance.randint(1, 4)
        losses[broken][chance.randrange(world_size)][0] = None
    return {"how": how, "losses": losses, "patience": patience, "most": most}


def _own(case: Case) -> list[list[float]]:
    """Return, by rank, the means of its own losses."""
    return [[mean_of([losses]) for losses in rank] for rank in zip(*case["losses"], strict=True)]


def _leaves_first(case: Case) -> bool:
    """Return whether a rank other than 0 would be the first to stop by its own losses, before the last epoch."""
    first, *others = (_stop_at(_waits(own, RULES["right"]), case["patience"]) for own in _own(case))
    return min(others) < min(first, case["most"]) and others.count(min(others)) == 1


def _is_clear(case: Case) -> bool:
    """Return whether no epoch differs from the best before by less than the margin."""
    lowest = math.inf
    for mean in map(mean_of, case["losses"]):
        if abs(mean - lowest) < _MARGIN:
            return False
        lowest = min(lowest, mean)
    return True


def _stop(case: Case, rules: Rules) -> int:
    waits = _waits([rules.mean(ranks) for ranks in case["losses"]], rules)
    return min(_stop_at(waits, case["patience"] + rules.late), case["most"])


def _stop_at(waits: Sequence[int], patience: int) -> int:
    return next((epoch for epoch, wait in enumerate(waits, 1) if wait >= patience), len(waits))


def _waits(means: Sequence[float], rules: Rules) -> list[int]:
    """Return, after each epoch, the number of epochs without a better loss."""
    waits, wait, lowest = [], 0, math.inf
    for mean in means:
        if math.isnan(lowest):
            better = rules.nan == "better"
        elif math.isnan(mean):
            better = rules.nan in ("better", "sticks")
        else:
            better = mean < lowest
        wait = 0 if better else wait + 1
        if better or (math.isnan(mean) and rules.nan == "spoils"):
            lowest = mean
        waits.append(wait)
    return waits
