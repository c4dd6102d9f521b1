"""Task 1: the gradient of one big batch from micro-batches of any number and size, with one reduction."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.accumulation.tasks.reduced import times_reduced
from course_lib.tasks import toys, weights
from course_lib.tasks.compared import Compared, at_most, compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Recognised, Trial, gate
from course_lib.tasks.toys import short
from course_lib.tasks.weights import ROUNDING, numbers
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

    MicroBatch = tuple[Tensor, Tensor]
    LossesOf = Callable[[Tensor, Tensor], Tensor]


class Case(TypedDict):
    """The sizes of each rank's micro-batches; `before`: whether there are gradients already."""

    seed: int
    sizes: list[list[int]]
    before: bool


class Found(TypedDict):
    """The mean loss and its gradients."""

    loss: float
    gradients: list[float]


class Seen(Found):
    """How often gradients were sent, too, and the most samples in a forward."""

    reduced: float
    largest: int


ThisTrial = Trial[Case, Seen, dict[str, list[Found]]]


def _network(case: Case) -> nn.Module:
    return weights.network(case["seed"], 8, 24, 4)


def _micro_batches(case: Case, rank: int) -> list[MicroBatch]:
    seeds = (case["seed"] + 100 * rank + 2 * number for number in range(len(case["sizes"][rank])))
    return [
        (weights.drawn(seed, size, 8) + rank, weights.drawn(seed + 1, size, 4) + 0.3 * size)
        for seed, size in zip(seeds, case["sizes"][rank], strict=True)
    ]


def _losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return one loss per sample."""
    return (outputs - targets).square().mean(1)


class Accumulate(Compared[Case, Seen, Found]):
    """The gradient of one big batch from micro-batches of any number and size, with one reduction."""

    name = "accumulation.accumulate"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield the same number of micro-batches on all ranks, then different numbers and old gradients."""
        seed = chance.randint(1, 10**6)
        even = [[5, 5, 1 + (rank + 1) % 3] for rank in range(world_size)]
        uneven = [[chance.randint(2, 6) for _ in range(2 * rank + 1)] for rank in range(world_size)]
        uneven[-1][-1] = 1
        chance.shuffle(uneven)
        yield {"seed": seed, "sizes": even, "before": False}
        yield {"seed": seed + 1, "sizes": uneven, "before": True}

    def describe(self, case: Case) -> str:
        each = (f"rank {rank} {short(sizes)}" for rank, sizes in enumerate(case["sizes"]))
        return f"micro-batches of: {', '.join(each)}"

    def trial(
        self, answer: Callable[[DistributedDataParallel, list[MicroBatch], LossesOf], object], case: Case
    ) -> Seen:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        net = _network(case)
        ddp = DistributedDataParallel(net)
        mine = _micro_batches(case, int(os.environ["RANK"]))
        if case["before"]:
            for parameter in net.parameters():
                parameter.grad = torch.ones_like(parameter)
        forwards: list[int] = []
        net.register_forward_pre_hook(lambda _, inputs: forwards.append(len(inputs[0])))
        began = time.time_ns()
        loss = answer(ddp, mine, _losses_of)
        return {
            "loss": toys.number(loss),
            "gradients": numbers(
                torch.zeros_like(one) if one.grad is None else one.grad for one in net.parameters()
            ),
            "reduced": times_reduced(net.parameters(), began),
            "largest": max(forwards, default=0),
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Found]]:
        import torch

        net = _network(case)
        parts = [part for rank in range(world_size) for part in _micro_batches(case, rank)]
        inputs, targets = map(torch.cat, zip(*parts, strict=True))
        loss = _losses_of(net(inputs), targets).mean()
        loss.backward()
        gradients = numbers(one.grad for one in net.parameters() if one.grad is not None)
        return {"right": [{"gradients": gradients, "loss": loss.item()}] * world_size}

    gives_number = gate("Every rank returns a number.")

    one_at_a_time = at_most(
        "No forward gets more than one micro-batch.",
        "with {case}, a forward on rank {rank} got {seen} samples",
        "one_forward",
        of="largest",
        limit=lambda case, rank: max(case["sizes"][rank]),
    )
    right = compared(
        "On every rank .grad holds the gradient of the mean loss over all samples of all ranks.",
        "on {gang} ({case}), the gradients of rank {rank} are off by up to {gap:.2g}",
        of="gradients",
    )
    #: In bytes; a few numbers more do not matter.
    once = at_most(
        "Gradients are sent once, however many micro-batches there are.",
        "with {case}, rank {rank} sent them {seen:.0f} times",
        "reduced_each_time",
        of="reduced",
        limit=lambda case, rank: 1.5,
    )
    right_loss = compared(
        "Every rank returns the mean loss over all samples of all ranks.",
        "on {gang}, rank {rank} returned {seen:.4f}; it is {right:.4f}",
        of="loss",
        within=Tolerance(1e-4, 1e-4),
    )

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Blame an extra reduction, in which a rank with more micro-batches waits, if one rank alone makes it."""
        return "reduced_each_time" if any(map(self.once, trials)) else self.recognise(trials)
