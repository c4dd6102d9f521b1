"""Task 1: a loop that accumulates, with several things wrong in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks.accumulation.epochs import (
    EPOCHS,
    RATE,
    WAYS,
    Case,
    groups,
    micro_batch,
    network,
    trained,
)
from course_lib.tasks.accumulation.reduced import times_reduced
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, recognise_by_name
from course_lib.tasks.toys import ranks_text
from course_lib.tasks.weights import ROUNDING, close, farthest, numbers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    LossOf = Callable[[Tensor, Tensor], Tensor]


class Epoch(TypedDict):
    """The weights after it, steps of the optimizer in it, and how often gradients were sent."""

    weights: list[float]
    steps: int
    reduced: float


#: For `right` and for each misconception, the weights after each epoch.
Oracle = dict[str, list[list[float]]]


ThisTrial = Trial[Case, list[Epoch], Oracle]


class TrainEpoch(Task[Case, list[Epoch], Oracle]):
    """A loop that accumulates, with several things wrong in it."""

    name = "accumulation.train_epoch"
    world_sizes = (1, 2)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """A short group at the end; fewer micro-batches than a group has."""
        for every, count in ((3, 7), (4, 3)):
            yield {
                "seed": chance.randint(1, 10**6),
                "size": chance.randint(2, 5),
                "every": every,
                "count": count,
            }

    def describe(self, case: Case) -> str:
        """How many micro-batches there are."""
        return f"{case['count']} micro-batches, every={case['every']}"

    def trial(
        self,
        answer: Callable[
            [DistributedDataParallel, Optimizer, list[tuple[Tensor, Tensor]], LossOf, int], object
        ],
        case: Case,
    ) -> list[Epoch]:
        """For each epoch: the weights after it, optimizer steps, and how often gradients were sent."""
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        ddp = DistributedDataParallel(network(case))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=RATE, momentum=0.9)
        steps: list[int] = []
        optimizer.register_step_post_hook(lambda *_: steps.append(1))
        told: list[Epoch] = []
        for epoch in range(EPOCHS):
            steps.clear()
            began = time.time_ns()
            shares = [micro_batch(case, epoch, rank, number) for number in range(case["count"])]
            answer(ddp, optimizer, shares, torch.nn.functional.mse_loss, case["every"])
            told.append(
                {
                    "weights": numbers(ddp.parameters()),
                    "steps": len(steps),
                    "reduced": times_reduced(ddp.parameters(), began),
                }
            )
        return told

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[list[float]]]]:
        """The weights after each epoch: right ones, and those of misconceptions."""
        return {name: partial(trained, case, world_size, way) for name, way in WAYS.items()}

    @check("Every group ends with a step of the optimizer, also one that is not full.")
    def steps(self, trial: ThisTrial) -> Miss | None:
        """As many steps as groups, in each epoch."""
        wanted = len(list(groups(trial.case)))
        for rank, seen in trial.seen.items():
            for epoch, told in enumerate(seen):
                if told["steps"] != wanted:
                    return Miss(
                        f"with {self.describe(trial.case)}, rank {rank} made {told['steps']} steps in epoch "
                        f"{epoch + 1}; there are {wanted} groups",
                        "left_over" if told["steps"] == trial.case["count"] // trial.case["every"] else None,
                    )
        return None

    @check("After each epoch all ranks have the same weights.")
    def same(self, trial: ThisTrial) -> Miss | None:
        for epoch in range(EPOCHS):
            for rank, seen in trial.seen.items():
                mine, first = seen[epoch]["weights"], trial.seen[0][epoch]["weights"]
                if not close(mine, first):
                    return Miss(
                        f"with {self.describe(trial.case)}, the weights of rank {rank} are up to "
                        f"{farthest(mine, first):.2g} away from rank 0's after epoch {epoch + 1}",
                        "never_reduced",
                    )
        return None

    @check("They are those of one process that takes all samples of a group, of all ranks, at once.")
    def right(self, trial: ThisTrial) -> Miss | None:
        for epoch in range(EPOCHS):
            mine, right = trial.seen[0][epoch]["weights"], trial.oracle["right"][epoch]
            if not close(mine, right):
                return Miss(
                    f"with {self.describe(trial.case)} on {ranks_text(trial.world_size)}, the weights are off by up to "
                    f"{farthest(mine, right):.2g} after epoch {epoch + 1}"
                )
        return None

    @check("Gradients are sent once a step.")
    def once(self, trial: ThisTrial) -> Miss | None:
        """In bytes; a few numbers more do not matter."""
        for rank, seen in trial.seen.items():
            for told in seen:
                if told["steps"] and told["reduced"] > told["steps"] + 0.5:
                    return Miss(
                        f"with {self.describe(trial.case)}, rank {rank} sent them {told['reduced']:.0f} times in "
                        f"{told['steps']} steps",
                        "reduced_each_time",
                    )
                if trial.world_size > 1 and told["reduced"] < 0.3 * told["steps"]:
                    return Miss(
                        f"with {self.describe(trial.case)}, rank {rank} sent hardly any in {told['steps']} steps",
                        "never_reduced",
                    )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """The way of training that gives exactly these weights."""

        def equal(seen: list[Epoch], right: list[list[float]]) -> bool:
            return all(close(told["weights"], one) for told, one in zip(seen, right, strict=True))

        return recognise_by_name(trials, WAYS, lambda trial, way: trial.everywhere(trial.oracle[way]), equal)
