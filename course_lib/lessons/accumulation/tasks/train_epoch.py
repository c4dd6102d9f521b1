"""Task 1: a loop that accumulates, with several things wrong in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.accumulation.tasks.epochs import (
    EPOCHS,
    RATE,
    Case,
    groups,
    micro_batch,
    network,
    trained,
)
from course_lib.lessons.accumulation.tasks.reduced import times_reduced
from course_lib.tasks.compared import Compared, compared, same_everywhere
from course_lib.tasks.task import Miss, Trial, check
from course_lib.tasks.weights import ROUNDING, numbers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    LossOf = Callable[[Tensor, Tensor], Tensor]


class Trained(TypedDict):
    """The weights after each epoch."""

    weights: list[list[float]]


class Seen(Trained):
    """A training with, by epoch, the steps of the optimizer and how often gradients were sent."""

    steps: list[int]
    reduced: list[float]


ThisTrial = Trial[Case, Seen, dict[str, list[Trained]]]


def _groups(trial: ThisTrial) -> int:
    return len(list(groups(trial.case)))


def _steps_once(trial: ThisTrial, rank: int) -> bool:
    """Return whether there is exactly one step for each group."""
    return all(steps == _groups(trial) for steps in trial.seen[rank]["steps"])


class TrainEpoch(Compared[Case, Seen, Trained]):
    """A loop that accumulates, with several things wrong in it."""

    name = "accumulation.train_epoch"
    world_sizes = (1, 2)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for every, count in ((3, 7), (4, 3)):
            yield {
                "seed": chance.randint(1, 10**6),
                "size": chance.randint(2, 5),
                "every": every,
                "count": count,
            }

    def describe(self, case: Case) -> str:
        return f"{case['count']} micro-batches, every={case['every']}"

    def trial(
        self,
        answer: Callable[
            [DistributedDataParallel, Optimizer, list[tuple[Tensor, Tensor]], LossOf, int], object
        ],
        case: Case,
    ) -> Seen:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        ddp = DistributedDataParallel(network(case))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=RATE, momentum=0.9)
        steps: list[int] = []
        optimizer.register_step_post_hook(lambda *_: steps.append(1))
        seen: Seen = {"weights": [], "steps": [], "reduced": []}
        for epoch in range(EPOCHS):
            steps.clear()
            began = time.time_ns()
            shares = [micro_batch(case, epoch, rank, number) for number in range(case["count"])]
            answer(ddp, optimizer, shares, torch.nn.functional.mse_loss, case["every"])
            seen["weights"].append(numbers(ddp.parameters()))
            seen["steps"].append(len(steps))
            seen["reduced"].append(times_reduced(ddp.parameters(), began))
        return seen

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Trained]]:
        return {"right": [{"weights": trained(case, world_size)}] * world_size}

    @check("Every group ends with a step of the optimizer, also one that is not full.")
    def steps(self, trial: ThisTrial) -> Miss | None:
        """As many steps as groups, in each epoch."""
        wanted = _groups(trial)
        for rank, seen in trial.seen.items():
            for epoch, steps in enumerate(seen["steps"], start=1):
                if steps != wanted:
                    return Miss(
                        f"with {self.describe(trial.case)}, rank {rank} made {steps} steps in epoch {epoch}; there are "
                        f"{wanted} groups",
                        "left_over" if steps == trial.case["count"] // trial.case["every"] else None,
                    )
        return None

    same = same_everywhere(
        "After each epoch all ranks have the same weights.",
        "with {case}, the weights of rank {rank} are up to {gap:.2g} away from rank 0's after epoch {number}",
        of="weights",
        each=True,
        known=lambda trial, rank: "never_reduced" if _steps_once(trial, rank) else None,
    )
    right = compared(
        "They are those of one process that takes all samples of a group, of all ranks, at once.",
        "with {case} on {gang}, the weights are off by up to {gap:.2g} after epoch {number}",
        of="weights",
        each=True,
    )

    @check("Gradients are sent once a step.")
    def once(self, trial: ThisTrial) -> Miss | None:
        """In bytes; a few numbers more do not matter. A group without a step may have been sent all the same."""
        for rank, seen in trial.seen.items():
            for steps, reduced in zip(seen["steps"], seen["reduced"], strict=True):
                where = f"with {self.describe(trial.case)}, rank {rank} sent"
                if steps and reduced > max(steps, _groups(trial)) + 0.5:
                    return Miss(f"{where} them {reduced:.0f} times in {steps} steps", "reduced_each_time")
                if trial.world_size > 1 and reduced < 0.3 * steps:
                    return Miss(f"{where} hardly any in {steps} steps", "never_reduced")
        return None
