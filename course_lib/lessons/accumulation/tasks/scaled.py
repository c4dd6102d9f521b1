"""Accumulating training in 16 bits with a scaler, played through in one process.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import weights

if TYPE_CHECKING:
    from torch import Tensor, nn

EPOCHS, RATE, DECAY, SCALE = 2, 0.3, 0.8, 1024.0
#: Times this, inputs do not fit into float16.
_LARGE = 1e6


class Case(TypedDict):
    """Each rank's micro-batches per epoch: `count`; a step takes `every` of them.

    `grows`: after so many steps without an overflow the scale is doubled. `broken`: the rank and, in the first epoch,
    the micro-batch whose inputs are too large for float16; -1 where there is none.
    """

    seed: int
    every: int
    count: int
    max_norm: float
    grows: int
    broken: list[int]


class Trained(TypedDict):
    """The gradient that the optimizer gets and the rate, by step; the scale after each epoch."""

    gradients: list[list[float]]
    rates: list[float]
    scales: list[float]


def network(case: Case) -> nn.Module:
    """Return a network with 4 inputs and 3 classes."""
    return weights.network(case["seed"], 4, 6, 3)


def micro_batch(case: Case, epoch: int, rank: int, number: int) -> tuple[Tensor, Tensor]:
    """Return inputs and labels of 4 samples."""
    import torch

    seed = case["seed"] + 1000 * epoch + 100 * rank + number
    inputs = weights.drawn(seed, 4, 4)
    if not epoch and case["broken"] == [rank, number]:
        inputs = inputs * _LARGE
    return inputs, torch.randint(3, (4,), generator=torch.Generator().manual_seed(seed))


def groups(case: Case) -> list[range]:
    """Return the numbers of the micro-batches between two steps."""
    numbers = range(case["count"])
    return [numbers[first : first + case["every"]] for first in numbers[:: case["every"]]]


def trained(case: Case, world_size: int) -> Trained:
    """Return the result of the training, the same on all ranks."""
    import torch

    net, rate, scale, good = network(case), RATE, SCALE, 0
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    found = Trained(gradients=[], rates=[], scales=[])
    for epoch in range(EPOCHS):
        for group in groups(case):
            if not epoch and case["broken"][1] in group:  # this step is skipped
                scale, good = scale * 0.5, 0
                continue
            optimizer.zero_grad()
            for number in group:
                for rank in range(world_size):
                    inputs, labels = micro_batch(case, epoch, rank, number)
                    loss = torch.nn.functional.cross_entropy(net(inputs), labels)
                    (loss / len(group) / world_size).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), case["max_norm"])
            found["gradients"].append(weights.numbers(p.grad for p in net.parameters() if p.grad is not None))
            found["rates"].append(round(rate, 4))
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            rate, good = rate * DECAY, good + 1
            if good == case["grows"]:
                scale, good = scale * 2, 0
        found["scales"].append(scale)
    return found
