"""Accumulating training on ranks with equal shares, played through in one process.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

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


def trained(case: Case, world_size: int) -> list[list[float]]:
    """Return the weights after each epoch, the same on all ranks."""
    import torch

    net = network(case)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    after = []
    for epoch in range(EPOCHS):
        for group in groups(case):
            optimizer.zero_grad()
            for rank in range(world_size):
                for number in group:
                    inputs, targets = micro_batch(case, epoch, rank, number)
                    loss = torch.nn.functional.mse_loss(net(inputs), targets)
                    (loss / len(group) / world_size).backward()
            optimizer.step()
        after.append(weights.numbers(net.parameters()))
    return after
