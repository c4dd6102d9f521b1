"""Mystery 4: it hangs in the second step, in a forward pass without collectives."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict, cast

from course_lib.lessons.debugging.tasks.mystery import Mystery, Seen, Solution
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Miss, Trial, check
from course_lib.tasks.weights import ROUNDING, drawn, network, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed import ProcessGroup
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

_NAMES = ("image", "text")
_STEPS = 4
#: Nobody draws more often than this while it trains.
_DRAWS = 2000
#: The process groups of this rank's last call.
_groups: list[ProcessGroup] = []


class Case(TypedDict):
    """The seed of each rank's `chance`."""

    seed: int
    chances: list[int]


class Run(TypedDict):
    """The weights of both towers, and whether `chance` is still what its seed has made it."""

    weights: list[float]
    own_chance: bool


class Oracle(TypedDict):
    """The weights of both towers, one after the other: before the training, and after it."""

    before: list[list[float]]
    right: list[float]


ThisTrial = Trial[Case, Seen[Run], Oracle]


def _orders(seed: int) -> list[str]:
    """Return which tower a rank with this seed calls first in each step."""
    chance, first = Random(seed), []
    for _ in range(_STEPS):
        names = list(_NAMES)
        chance.shuffle(names)
        first.append(names[0])
    return first


def _towers(case: Case) -> dict[str, nn.Module]:
    return {name: network(case["seed"] + number, 2, 3, 1) for number, name in enumerate(_NAMES)}


def _continues(chance: Random, seed: int) -> bool:
    """Return whether a generator is Random(seed) after some draws: its next draws are among that one's."""
    own = Random(seed)
    coming = [own.getrandbits(32) for _ in range(_DRAWS)]
    given = [chance.getrandbits(32) for _ in range(4)]
    return any(coming[at : at + 4] == given for at in range(_DRAWS - 3))


def _leave_groups() -> None:
    """Give back the threads of the last call's groups: a rank's address space has room for those of a few groups only.

    This is done when the next call begins, because then all ranks are through with the last one.
    """
    import torch.distributed as dist

    while _groups:
        dist.destroy_process_group(_groups.pop())
    gc.collect()  # DDP refers to its group, and to itself


def _one_tower_left(trial: ThisTrial, rank: int) -> str | None:
    """Return a misconception if a tower is unchanged by the training."""
    image, text = trial.oracle["before"]
    weights = trial.seen[rank]["run"]["weights"]
    still = weights[: len(image)] == image or weights[len(image) :] == text
    return "one_tower_left" if still else None


def _batches(case: Case, rank: int) -> Tensor:
    return drawn(case["seed"] + 10 + rank, _STEPS, 3, 2)


class TrainTowers(Mystery[Case, Run, Oracle]):
    """It hangs in the second step, in a forward pass without collectives."""

    name = "debugging.train_towers"
    still_hangs = "still_own_order"
    tolerance = ROUNDING
    solution = Solution(
        culprit=0,
        cause="order",
        seen_doing={
            1: "it waits in the same group as rank 2, and both of them came there",
            2: "it waits in the same group as rank 1, and both of them came there",
        },
        refuted={
            "groups": "each group does what it is asked to; nobody asks both in the same order",
            "one_rank": "every rank calls both towers in every step",
            "fewer_batches": "all ranks are in their second step",
            "late": "all ranks wait, and none of them moves",
            "types": "all broadcasts in the record have the same size",
            "skipped": "nothing in this script catches anything",
        },
        tempting={"groups": "groups_blamed"},
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield the exercise's orders, then orders of which another rank leaves the common one in the second step."""
        yield {"seed": chance.randint(1, 10**6), "chances": [0, 1, 2]}
        odd = chance.choice((1, 2))
        seeds = [0] * world_size
        while len({_orders(seed)[1] for seed in seeds}) == 1:
            common, own = chance.randint(10, 999), chance.randint(10, 999)
            seeds = [own if rank == odd else common for rank in range(world_size)]
        yield {"seed": chance.randint(1, 10**6), "chances": seeds}

    def describe(self, case: Case) -> str:
        return f"{toys.short([_orders(seed)[1] for seed in case['chances']])} drawn first in the second step"

    def run_repaired(
        self,
        answer: Callable[[dict[str, DistributedDataParallel], Optimizer, Tensor, Random], object],
        case: Case,
    ) -> Run:
        """Return the weights of both towers."""
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        _leave_groups()
        _groups.extend(cast("ProcessGroup", dist.new_group()) for _ in _NAMES)
        towers = {
            name: DistributedDataParallel(tower, process_group=group)
            for (name, tower), group in zip(_towers(case).items(), _groups, strict=True)
        }
        weights = [weight for tower in towers.values() for weight in tower.parameters()]
        chance = Random(case["chances"][rank])
        answer(towers, torch.optim.SGD(weights, lr=0.1), _batches(case, rank), chance)
        return {"weights": numbers(weights), "own_chance": _continues(chance, case["chances"][rank])}

    def oracle(self, case: Case, world_size: int) -> Oracle:
        import torch

        towers = _towers(case)
        before = [numbers(tower.parameters()) for tower in towers.values()]
        weights = [weight for tower in towers.values() for weight in tower.parameters()]
        optimizer = torch.optim.SGD(weights, lr=0.1)
        for parts in zip(*(_batches(case, rank) for rank in range(world_size)), strict=True):
            optimizer.zero_grad()
            batch = torch.cat(parts)
            (towers["image"](batch) + towers["text"](batch)).square().mean().backward()
            optimizer.step()
        return {"before": before, "right": numbers(weights)}

    right = compared(
        "Both towers have the weights of one process that trains on the batches of all ranks.",
        "with {case}, the weights of rank {rank} are off by up to {gap:.2g}",
        of=("run", "weights"),
        right=lambda trial, _: trial.oracle["right"],
        known=_one_tower_left,
    )

    @check("Every rank still has a `chance` of its own.")
    def own_chance(self, trial: ThisTrial) -> Miss | None:
        """Drawn from or not, but not put into another state."""
        for rank, seen in trial.seen.items():
            if not seen["run"]["own_chance"]:
                return Miss(
                    f"rank {rank} was given Random({trial.case['chances'][rank]}); what it draws after the training is "
                    "nothing that this generator draws",
                    "chance_taken",
                )
        return None
