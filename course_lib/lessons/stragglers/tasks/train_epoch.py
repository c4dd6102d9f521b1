"""Task 2: an epoch in which ranks have different numbers of batches, of different sizes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Recognised, Trial
from course_lib.tasks.toys import short
from course_lib.tasks.weights import ROUNDING, drawn, network, numbers
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    LossesOf = Callable[[Tensor, Tensor], Tensor]


class Case(TypedDict):
    """The sizes of each rank's batches."""

    seed: int
    sizes: list[list[int]]


class Weights(TypedDict):
    """The weights after each epoch."""

    first: list[float]
    second: list[float]


class TrainEpoch(Compared[Case, Weights, Weights]):
    """An epoch in which ranks have different numbers of batches, of different sizes."""

    name = "stragglers.train_epoch"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield the same number of batches, the last one short; then different numbers, so that one rank has none."""
        seed = chance.randint(1, 10**6)
        even = [[4, 4, chance.randint(1, 2) + rank] for rank in range(world_size)]
        uneven = [[chance.randint(1, 5) for _ in range(2 * rank + 1)] for rank in range(world_size)]
        if world_size == 3:
            uneven[0] = []
        chance.shuffle(uneven)
        yield {"seed": seed, "sizes": even}
        yield {"seed": seed + 1, "sizes": uneven}

    def describe(self, case: Case) -> str:
        each = (f"rank {rank} {short(sizes)}" for rank, sizes in enumerate(case["sizes"]))
        return f"batch sizes: {', '.join(each)}"

    def trial(
        self,
        answer: Callable[[DistributedDataParallel, Optimizer, list[tuple[Tensor, Tensor]], LossesOf], object],
        case: Case,
    ) -> Weights:
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        ddp = DistributedDataParallel(network(case["seed"], 4, 5, 2))
        optimizer = _optimizer(ddp)
        after = []
        for epoch in range(2):
            batches = [
                _batch(case, epoch, rank, number, size) for number, size in enumerate(case["sizes"][rank])
            ]
            answer(ddp, optimizer, batches, _losses)
            after.append(numbers(ddp.parameters()))
        return {"first": after[0], "second": after[1]}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Weights]]:
        """Train one process on all samples of a round at once."""
        import torch

        net = network(case["seed"], 4, 5, 2)
        optimizer, after = _optimizer(net), []
        for epoch in range(2):
            for number in range(max(map(len, case["sizes"]))):
                batches = [
                    _batch(case, epoch, rank, number, sizes[number])
                    for rank, sizes in enumerate(case["sizes"])
                    if number < len(sizes)
                ]
                inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
                optimizer.zero_grad()
                _losses(net(inputs), targets).mean().backward()
                optimizer.step()
            after.append(numbers(net.parameters()))
        return {"right": [{"first": after[0], "second": after[1]}] * world_size}

    #: Round by round, each a step on the mean over all its samples.
    first = compared(
        "After the first epoch, all ranks have the weights of one process that took all samples of a round at once.",
        "on {gang} ({case}), the weights of rank {rank} are off by up to {gap:.2g} after epoch 1",
        of="first",
    )
    second = compared(
        "So they have after a second epoch.",
        "on {gang} ({case}), the weights of rank {rank} are off by up to {gap:.2g} after epoch 2",
        of="second",
    )

    def recognise_ending(
        self, outcome: Outcome, trials: Sequence[Trial[Case, Weights, dict[str, list[Weights]]]]
    ) -> Recognised:
        """Recognise ranks that wait for one that is through, meet its next collective, or call one inside Join."""
        stages = {record.stage for records in outcome.collectives.values() for record in records}
        if "join" in stages:
            return "collective_in_join"
        evenly = any(trial.world_size == outcome.world_size for trial in trials)
        met = outcome.kind is Kind.HANG or (outcome.kind is Kind.DIED and evenly and "gradients" in stages)
        return "waits_for_ever" if met else None


def _optimizer(model: nn.Module) -> Optimizer:
    import torch

    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean(1)


def _batch(case: Case, epoch: int, rank: int, number: int, size: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets."""
    both = drawn(case["seed"] + 1000 * epoch + 100 * rank + number, size, 6) + 0.3 * rank
    return both[:, :4], both[:, 4:]
