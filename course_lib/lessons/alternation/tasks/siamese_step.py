"""Task 3: one step on a Siamese network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.alternation.tasks.wrapped import Usage, Watched, around_the_wrapper, not_averaged
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared, same_everywhere
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Trial, gate
from course_lib.tasks.weights import ROUNDING, drawn, network, numbers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer


class Case(TypedDict):
    """So many steps, each with so many pairs on every rank."""

    seed: int
    batch: int
    steps: int


class Seen(Usage):
    """The use of the model, and the loss that the first step returned."""

    loss: float


class Found(TypedDict):
    """The result of one process: weights in the end, and the loss of the first step."""

    weights: list[float]
    loss: float


ThisTrial = Trial[Case, Seen, dict[str, list[Found]]]


def _pairs(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    seed = case["seed"] + 1000 * step + 10 * rank
    same = (drawn(seed + 3, case["batch"]) > 0).float()
    return drawn(seed + 1, case["batch"], 4), drawn(seed + 2, case["batch"], 4), same


def _known(trial: ThisTrial, _rank: int) -> str | None:
    """Return the misconception that the counts show."""
    seen = trial.seen[0]
    if seen["module"] > 0 and seen["wrapper"] == 0:
        return "around_the_wrapper"
    if not_averaged(seen):
        return "around_the_wrapper" if around_the_wrapper(seen) and not seen["averages"] else "two_backwards"
    return None


class SiameseStep(Compared[Case, Seen, Found]):
    """One step on a Siamese network."""

    name = "alternation.siamese_step"
    world_sizes = (2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for _ in range(2):
            yield {"seed": chance.randint(1, 10**6), "batch": chance.choice((4, 5, 6)), "steps": 3}

    def describe(self, case: Case) -> str:
        return f"{case['batch']} pairs a rank"

    def trial(
        self,
        answer: Callable[[DistributedDataParallel, Optimizer, Tensor, Tensor, Tensor], object],
        case: Case,
    ) -> Seen:
        import torch

        model = Watched(network(case["seed"], 4, 5, 3))
        optimizer = torch.optim.SGD(model.ddp.parameters(), lr=0.1)
        rank = int(os.environ["RANK"])
        losses = [answer(model.ddp, optimizer, *_pairs(case, step, rank)) for step in range(case["steps"])]
        first, *_ = (toys.number(loss) for loss in losses)
        return {"loss": first, **model.seen()}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Found]]:
        return {"right": [_train_alone(case, world_size)] * world_size}

    gives_number = gate("Every rank returns a number.", "rank {rank} returned {given}")
    agree = same_everywhere(
        "All ranks end with the same weights.",
        "after {steps} steps the weights of rank {rank} differ from those of rank 0 by up to {gap:.2g}",
        of="weights",
        known=_known,
    )
    right = compared(
        "The weights are those of one process that trains on the pairs of all ranks.",
        "on {gang}, the weights of rank {rank} are off by up to {gap:.2g} after {steps} steps",
        of="weights",
        known=_known,
    )
    #: Judged at the first step, which all answers begin with equal weights.
    loss_of_all = compared(
        "Every rank returns the mean loss over the pairs of all ranks.",
        "rank {rank} returned {seen:.4f} in the first step; over all pairs it is {right:.4f}",
        of="loss",
        within=Tolerance(1e-4),
    )


def _loss(a: Tensor, b: Tensor, same: Tensor) -> Tensor:
    gap = (a - b).square().sum(1)
    return (same * gap + (1 - same) * (1 - gap).relu()).mean()


def _train_alone(case: Case, world_size: int) -> Found:
    """Make the same steps in one process without DDP, on the pairs of all ranks."""
    import torch

    net = network(case["seed"], 4, 5, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses: list[float] = []
    for step in range(case["steps"]):
        parts = [_pairs(case, step, rank) for rank in range(world_size)]
        first, second, same = (torch.cat(part) for part in zip(*parts, strict=True))
        loss = _loss(net(first), net(second), same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"weights": numbers(net.parameters()), "loss": losses[0]}
