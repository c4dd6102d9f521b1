"""Accumulating training in 16 bits with a scaler, played through in one process: rightly, and as mistakes have it.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

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


@dataclass(frozen=True)
class Way:
    """A way to train an epoch.

    Attributes:
        divides: a loss by the micro-batches of its group, by `every`, or by nothing.
        last: only the last micro-batch of a group counts. drops: a short group gets no step.
        clips: what is cut to `max_norm`, if anything. scheduled: after which steps, or micro-batches, the rate falls.
        updates: whether the scale is adapted. omits: the micro-batch that overflows is left out.
    """

    divides: Literal["group", "every", "nothing"] = "group"
    last: bool = False
    drops: bool = False
    clips: Literal["gradient", "scaled", "nothing"] = "gradient"
    scheduled: Literal["made", "all", "each", "never"] = "made"
    updates: bool = True
    omits: bool = False


#: By misconception; a slash and a variant may follow.
WAYS = {
    "right": Way(),
    "zeroed_inside": Way(last=True),
    "zeroed_inside/undivided": Way("nothing", last=True),
    "not_divided": Way("nothing"),
    "left_over": Way(drops=True),
    "short_group": Way("every"),
    "clipped_scaled": Way(clips="scaled"),
    "not_clipped": Way(clips="nothing"),
    "schedule": Way(scheduled="all"),
    "schedule/each": Way(scheduled="each"),
    "schedule/never": Way(scheduled="never"),
    "not_updated": Way(updates=False),
    "skipped_alone": Way(omits=True),
}


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


def trained(case: Case, world_size: int, way: Way) -> Trained:
    """Return the result of the training, the same on all ranks."""
    import torch

    net, rate, scale, good = network(case), RATE, SCALE, 0
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    found = Trained(gradients=[], rates=[], scales=[])
    for epoch in range(EPOCHS):
        for group in groups(case):
            if way.drops and len(group) < case["every"]:
                continue
            divisor = {"group": len(group), "every": case["every"], "nothing": 1}[way.divides]
            optimizer.zero_grad()
            taken = group[-1:] if way.last else group
            skipped = not epoch and case["broken"][1] in taken and not way.omits
            if way.scheduled == "each":
                rate *= DECAY ** len(group)
            for number in () if skipped else taken:
                for rank in range(world_size):
                    if way.omits and not epoch and case["broken"] == [rank, number]:
                        continue
                    inputs, labels = micro_batch(case, epoch, rank, number)
                    loss = torch.nn.functional.cross_entropy(net(inputs), labels)
                    (loss / divisor / world_size).backward()
            if not skipped:
                limit = {"gradient": case["max_norm"], "scaled": case["max_norm"] / scale}
                torch.nn.utils.clip_grad_norm_(net.parameters(), limit.get(way.clips, math.inf))
                found["gradients"].append(
                    weights.numbers(p.grad for p in net.parameters() if p.grad is not None)
                )
                found["rates"].append(round(rate, 4))
                optimizer.param_groups[0]["lr"] = rate
                optimizer.step()
            good = 0 if skipped else good + 1
            if way.updates and (skipped or good == case["grows"]):
                scale, good = scale * (0.5 if skipped else 2), 0
            if way.scheduled == "all" or (way.scheduled == "made" and not skipped):
                rate *= DECAY
        found["scales"].append(scale)
    return found
