"""Training on ranks with uneven batches, played through in one process: rightly, and as misconceptions have it.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.weights import added, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


class Case(TypedDict):
    """The sizes of each rank's batches."""

    seed: int
    sizes: list[list[int]]


@dataclass(frozen=True)
class Way:
    """A way to train an epoch.

    Attributes:
        weighs: what the sum of a rank's losses is divided by: all samples of the round; its own samples, times all
            ranks or times those that have a batch; all ranks only; its own samples, and nothing is averaged.
        joins: a rank without a batch takes no step, and at the end of the epoch it gets the weights of the last one.
        drops: all stop when the first rank runs out.
    """

    weighs: Literal["samples", "ranks", "left", "sum", "alone"] = "samples"
    joins: bool = False
    drops: bool = False


#: By misconception; a slash and a variant may follow.
WAYS = {
    "right": Way(),
    "optimizer_left_behind": Way(joins=True),
    "mean_of_means": Way("ranks"),
    "mean_of_means/left": Way("left"),
    "mean_of_means/join": Way("ranks", joins=True),
    "mean_of_means/join, left": Way("left", joins=True),
    "rounds_dropped": Way(drops=True),
    "rounds_dropped/means": Way("ranks", drops=True),
    "summed": Way("sum"),
    "summed/join": Way("sum", joins=True),
    "not_averaged": Way("alone", joins=False),
}


def network(seed: int) -> nn.Module:
    """Return a network with 4 inputs and 2 outputs."""
    import torch

    toys.seed_torch(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


def batch(case: Case, epoch: int, rank: int, number: int, size: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of one batch."""
    import torch

    seed = case["seed"] + 1000 * epoch + 100 * rank + number
    drawn = torch.randn(size, 6, generator=torch.Generator().manual_seed(seed)) + 0.3 * rank
    return drawn[:, :4], drawn[:, 4:]


def train(case: Case, way: Way) -> list[list[list[float]]]:
    """Return the weights of each rank after each of two epochs."""
    import torch

    ranks = len(case["sizes"])
    models = [network(case["seed"]) for _ in range(ranks)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]
    counts = [len(sizes) for sizes in case["sizes"]]
    after: list[list[list[float]]] = [[] for _ in range(ranks)]
    for epoch in range(2):
        for number in range(min(counts) if way.drops else max(counts)):
            _round(case, way, epoch, number, models, optimizers)
        if way.joins:
            last = max(rank for rank in range(ranks) if counts[rank] == max(counts))
            state = {name: value.clone() for name, value in models[last].state_dict().items()}
            for model in models:
                model.load_state_dict(state)
        for rank, model in enumerate(models):
            after[rank].append(numbers(model.parameters()))
    return after


def _round(
    case: Case,
    way: Way,
    epoch: int,
    number: int,
    models: Sequence[nn.Module],
    optimizers: Sequence[Optimizer],
) -> None:
    import torch

    left = [rank for rank, sizes in enumerate(case["sizes"]) if len(sizes) > number]
    total = sum(case["sizes"][rank][number] for rank in left)
    gradients = {}
    for rank in left:
        size = case["sizes"][rank][number]
        inputs, targets = batch(case, epoch, rank, number, size)
        divisor = {
            "samples": total,
            "ranks": size * len(models),
            "left": size * len(left),
            "sum": len(models),
            "alone": size,
        }[way.weighs]
        loss = (models[rank](inputs) - targets).square().mean(1).sum() / divisor
        gradients[rank] = torch.autograd.grad(loss, list(models[rank].parameters()))
    for rank in left if way.joins or way.weighs == "alone" else range(len(models)):
        taken = [gradients[rank]] if way.weighs == "alone" else list(gradients.values())
        for parameter, *parts in zip(models[rank].parameters(), *taken, strict=True):
            parameter.grad = added(parts)
        optimizers[rank].step()
