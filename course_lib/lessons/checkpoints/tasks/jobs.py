"""A small training with everything that has a memory, on real ranks and, for the oracle, as one process plays it.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.tasks import toys
from course_lib.tasks.weights import drawn

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

#: Batches in an epoch.
EPOCH = 4
_BATCH = 3

#: By name of the generator, its state; each has a kind of its own.
States = dict[str, Any]


@dataclass(eq=False)
class Job:
    """A training that can be saved: epoch and batch say where it is, `batch` counts those done in this epoch."""

    model: nn.Module
    optimizer: Optimizer
    scheduler: LRScheduler
    epoch: int = 0
    batch: int = 0


def generators() -> States:
    """Return the states of the three global generators."""
    import numpy as np
    import torch

    return {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),
        "random": random.getstate(),
    }


def set_generators(states: States) -> None:
    """Put the generators into these states."""
    import numpy as np
    import torch

    setters: dict[str, Callable[[Any], None]] = {
        "torch": torch.set_rng_state,
        "numpy": np.random.set_state,
        "random": random.setstate,
    }
    for name, state in states.items():
        setters[name](state)


def seed_all(seed: int) -> None:
    """Seed the three generators, as a new process does first."""
    import numpy as np

    toys.seed_torch(seed)
    np.random.seed(seed)
    random.seed(seed)


def network() -> nn.Module:
    """Return a network 4 -> 8 -> 3 with dropout; its weights come from torch's generator."""
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )


def with_optimizer(model: nn.Module) -> Job:
    """Return the job around a model."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(0.8**step))
    return Job(model, optimizer, scheduler)


def new_job(seed: int, rank: int) -> Job:
    """Make a job as a new process on a rank does."""
    import torch

    seed_all(seed + 1000 * rank)
    return with_optimizer(torch.nn.parallel.DistributedDataParallel(network()))


def loss_of(job: Job, seed: int, rank: int, world_size: int) -> Tensor:
    """Return the loss of this rank's next batch, which is disturbed by random numbers of all three kinds."""
    import numpy as np
    import torch

    samples = EPOCH * _BATCH * world_size
    inputs, labels = drawn(seed + 5, samples, 4), torch.arange(samples) % 3
    mine = toys.dealt(samples, world_size, rank, job.epoch)[job.batch * _BATCH : (job.batch + 1) * _BATCH]
    shaken = inputs[mine] * (0.5 + random.random()) + float(np.random.normal(scale=0.3))
    return torch.nn.functional.cross_entropy(job.model(shaken), labels[mine])


def count_on(job: Job) -> None:
    """Count one more batch."""
    job.scheduler.step()
    job.batch += 1
    if job.batch == EPOCH:
        job.epoch, job.batch = job.epoch + 1, 0


def train(job: Job, steps: int, seed: int, rank: int, world_size: int) -> list[float]:
    """Make these steps on a rank and return its losses."""
    losses = []
    for _ in range(steps):
        job.optimizer.zero_grad()
        loss = loss_of(job, seed, rank, world_size)
        loss.backward()
        job.optimizer.step()
        count_on(job)
        losses.append(loss.item())
    return losses


class Played:
    """The training as one process plays it: a model, and for each rank its random states."""

    def __init__(self, seed: int, world_size: int) -> None:
        self.seed, self.world_size, self.states = seed, world_size, list[States]()
        models = []
        for rank in range(world_size):
            seed_all(seed + 1000 * rank)
            models.append(network())
            self.states.append(generators())
        self.job = with_optimizer(models[0])  # DDP gives rank 0's weights to all

    def train(self, steps: int) -> list[list[float]]:
        """Make these steps and return the losses of each rank."""
        losses: list[list[float]] = [[] for _ in range(self.world_size)]
        for _ in range(steps):
            self.job.optimizer.zero_grad()
            for rank in range(self.world_size):
                set_generators(self.states[rank])
                loss = loss_of(self.job, self.seed, rank, self.world_size)
                (loss / self.world_size).backward()
                self.states[rank] = generators()
                losses[rank].append(loss.item())
            self.job.optimizer.step()
            count_on(self.job)
        return losses


def uninterrupted(seed: int, world_size: int, before: int, after: int) -> list[list[float]]:
    """Return the losses of each rank in the steps after the first `before` ones."""
    run = Played(seed, world_size)
    run.train(before)
    return run.train(after)
