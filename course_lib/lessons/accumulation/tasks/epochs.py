"""Accumulating training on ranks with equal shares, played through in one process: rightly, and as mistakes have it.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from course_lib.tasks import weights

if TYPE_CHECKING:
    from torch import Tensor, nn


EPOCHS = 2
RATE = 0.2


class Case(TypedDict):
    """Each rank's micro-batches per epoch: `count` of `size` samples; a step takes `every` of them."""

    seed: int
    size: int
    every: int
    count: int


@dataclass(frozen=True)
class Way:
    """A way to train an epoch.

    Attributes:
        divides: a micro-batch's loss by the micro-batches of its group, by `every`, or by nothing.
        counts: all micro-batches of a group, or the last one only. sums: gradients are added over the ranks.
    """

    divides: Literal["group", "every", "nothing"] = "group"
    counts: Literal["all", "last"] = "all"
    sums: bool = False


#: By misconception; a slash and a variant may follow.
WAYS = {
    "right": Way(),
    "zeroed_inside": Way(counts="last"),
    "zeroed_inside/every": Way("every", counts="last"),
    "zeroed_inside/undivided": Way("nothing", counts="last"),
    "not_divided": Way("nothing"),
    "short_group": Way("every"),
    "summed_over_ranks": Way(sums=True),
}


def network(case: Case) -> nn.Module:
    """Return a network with 8 inputs and 4 outputs."""
    return weights.network(case["seed"], 8, 24, 4)


def micro_batch(case: Case, epoch: int, rank: int, number: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets; all micro-batches of a case have the same size."""
    seed = case["seed"] + 1000 * epoch + 100 * rank + 2 * number
    inputs, targets = weights.drawn(seed, case["size"], 8), weights.drawn(seed + 1, case["size"], 4)
    return inputs + 0.3 * rank, targets + 0.2 * number


def groups(case: Case) -> Iterable[list[int]]:
    """Yield the numbers of the micro-batches between two steps."""
    numbers = range(case["count"])
    return [list(numbers[first : first + case["every"]]) for first in numbers[:: case["every"]]]


def trained(case: Case, world_size: int, way: Way) -> list[list[float]]:
    """Return the weights after each epoch, the same on all ranks."""
    import torch

    net = network(case)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    after = []
    for epoch in range(EPOCHS):
        for group in groups(case):
            divisor = {"group": len(group), "every": case["every"], "nothing": 1}[way.divides]
            optimizer.zero_grad()
            for number, rank in itertools.product(
                group if way.counts == "all" else group[-1:], range(world_size)
            ):
                inputs, targets = micro_batch(case, epoch, rank, number)
                loss = torch.nn.functional.mse_loss(net(inputs), targets)
                (loss / divisor / (1 if way.sums else world_size)).backward()
            optimizer.step()
        after.append(weights.numbers(net.parameters()))
    return after
