"""Task 3: one step on a Siamese network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.alternation.tasks.wrapped import Usage, Watched, around_the_wrapper, not_averaged
from course_lib.tasks import toys
from course_lib.tasks.compared import compared, same_everywhere
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Task, Trial, gate
from course_lib.tasks.weights import ROUNDING, close, drawn, network, numbers

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
    """The use of the model, and the losses that the steps returned."""

    losses: list[float]


class Found(TypedDict):
    """The result of one process: weights, the losses of all steps, and each rank's own in the first step."""

    weights: list[float]
    losses: list[float]
    local: list[float]


#: For `right` and for each misconception.
Oracle = dict[str, Found]
ThisTrial = Trial[Case, Seen, Oracle]


def _pairs(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    seed = case["seed"] + 1000 * step + 10 * rank
    same = (drawn(seed + 3, case["batch"]) > 0).float()
    return drawn(seed + 1, case["batch"], 4), drawn(seed + 2, case["batch"], 4), same


#: By misconception; a slash and a variant may follow.
_WAYS = ("one_branch_detached", "one_branch_detached/first", "distance_not_squared", "reduced_twice")


def _known(trial: ThisTrial, _rank: int) -> str | None:
    """Return the misconception that the counts or the weights show."""
    seen = trial.seen[0]
    if seen["module"] > 0 and seen["wrapper"] == 0:
        return "around_the_wrapper"
    if not_averaged(seen):
        return "around_the_wrapper" if around_the_wrapper(seen) and not seen["averages"] else "two_backwards"
    for way in _WAYS:
        if all(close(s["weights"], trial.oracle[way]["weights"]) for s in trial.seen.values()):
            return way.partition("/")[0]
    return None


def _local_loss(trial: ThisTrial, _rank: int) -> str | None:
    """Recognise ranks that return their own loss where nothing else is wrong."""
    right = trial.oracle["right"]
    mine = all(abs(seen["losses"][0] - right["local"][rank]) < 1e-4 for rank, seen in trial.seen.items())
    return (
        "local_loss"
        if mine and all(close(s["weights"], right["weights"]) for s in trial.seen.values())
        else None
    )


class SiameseStep(Task[Case, Seen, Oracle]):
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
        return {"losses": [toys.number(loss) for loss in losses], **model.seen()}

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], Found]]:
        return {way: partial(_train_alone, case, world_size, way) for way in ("right", *_WAYS)}

    def reference(self, oracle: Oracle) -> object:
        return oracle["right"]

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
        right=lambda trial, _: trial.oracle["right"]["weights"],
        known=_known,
    )
    #: Judged at the first step, which all answers begin with equal weights.
    loss_of_all = compared(
        "Every rank returns the mean loss over the pairs of all ranks.",
        "rank {rank} returned {seen:.4f} in the first step; over all pairs it is {right:.4f}",
        of=("losses", 0),
        right=lambda trial, _: trial.oracle["right"]["losses"][0],
        within=Tolerance(1e-4),
        known=_local_loss,
    )


def _loss(a: Tensor, b: Tensor, same: Tensor, squared: bool = True) -> Tensor:
    gap = (a - b).square().sum(1)
    gap = gap if squared else gap.sqrt()
    return (same * gap + (1 - same) * (1 - gap).relu()).mean()


def _train_alone(case: Case, world_size: int, way: str) -> Found:
    """Make the same steps in one process without DDP, on the pairs of all ranks."""
    import torch

    net = network(case["seed"], 4, 5, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1 * (world_size if way == "reduced_twice" else 1))
    losses, local = [], []
    for step in range(case["steps"]):
        parts = [_pairs(case, step, rank) for rank in range(world_size)]
        if step == 0:
            local = [_loss(net(a), net(b), same).item() for a, b, same in parts]
        first, second, same = (torch.cat(part) for part in zip(*parts, strict=True))
        one, other = net(first), net(second)
        one = one.detach() if way == "one_branch_detached/first" else one
        other = other.detach() if way == "one_branch_detached" else other
        loss = _loss(one, other, same, squared=way != "distance_not_squared")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"weights": numbers(net.parameters()), "losses": losses, "local": local}
