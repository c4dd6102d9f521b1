"""Task 2: an epoch in which ranks have different numbers of batches, of different sizes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from course_lib.lessons.stragglers.tasks.replicas import WAYS, Case, batch, network, train
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Recognised, Trial
from course_lib.tasks.toys import short
from course_lib.tasks.weights import ROUNDING, numbers
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    LossesOf = Callable[[Tensor, Tensor], Tensor]


ThisTrial = Trial[Case, list[list[float]], dict[str, list[list[list[float]]]]]


class TrainEpoch(Compared[Case, list[list[float]], list[list[float]]]):
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
    ) -> list[list[float]]:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        ddp = DistributedDataParallel(network(case["seed"]))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
        after = []
        for epoch in range(2):
            batches = [
                batch(case, epoch, rank, number, size) for number, size in enumerate(case["sizes"][rank])
            ]
            answer(ddp, optimizer, batches, lambda outputs, targets: (outputs - targets).square().mean(1))
            after.append(numbers(ddp.parameters()))
        return after

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[list[list[float]]]]]:
        return {name: partial(train, case, way) for name, way in WAYS.items()}

    #: Round by round, each a step on the mean over all its samples.
    first = compared(
        "After the first epoch, all ranks have the weights of one process that took all samples of a round at once.",
        "on {gang} ({case}), the weights of rank {rank} are off by up to {gap:.2g} after epoch 1",
        of=0,
    )
    second = compared(
        "So they have after a second epoch.",
        "on {gang} ({case}), the weights of rank {rank} are off by up to {gap:.2g} after epoch 2",
        of=1,
    )

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise ranks that wait for one that is through, meet its next collective, or call one inside Join."""
        stages = {record.stage for records in outcome.collectives.values() for record in records}
        if "join" in stages:
            return "collective_in_join"
        evenly = any(trial.world_size == outcome.world_size for trial in trials)
        if outcome.kind is Kind.HANG or (outcome.kind is Kind.DIED and evenly and "gradients" in stages):
            return "waits_for_ever"
        return self.recognise(trials)
