"""Task 2: one step of a GAN, with every gradient averaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.alternation.tasks.wrapped import Counts, Watched, around_the_wrapper, not_averaged
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Task, Trial, check
from course_lib.tasks.weights import ROUNDING, close, drawn, farthest, network, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

_NAMES = ("generator", "discriminator")


class Case(TypedDict):
    """So many steps, each with batches of this size on every rank."""

    seed: int
    batch: int
    steps: int


class Trained(TypedDict):
    """The weights in the end, by name of the model."""

    weights: dict[str, list[float]]


class Seen(Trained):
    """Counts of the models' use, too."""

    counts: dict[str, Counts]


class Oracle(TypedDict):
    """What is right on each rank, and the weights at the start."""

    right: list[Trained]
    start: dict[str, list[float]]


ThisTrial = Trial[Case, Seen, Oracle]


def _models(case: Case) -> tuple[nn.Sequential, nn.Sequential]:
    return network(case["seed"], 3, 5, 2), network(case["seed"] + 1, 2, 5, 1)


def _samples(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor]:
    seed = case["seed"] + 1000 * step + 10 * rank
    return drawn(seed + 2, case["batch"], 2) + 1.0, drawn(seed + 3, case["batch"], 3)


class GanStep(Task[Case, Seen, Oracle]):
    """One step of a GAN, with every gradient averaged."""

    name = "alternation.gan_step"
    world_sizes = (2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for _ in range(2):
            yield {"seed": chance.randint(1, 10**6), "batch": chance.choice((3, 4, 6)), "steps": 3}

    def describe(self, case: Case) -> str:
        return f"{case['batch']} samples a rank"

    def trial(
        self,
        answer: Callable[
            [DistributedDataParallel, DistributedDataParallel, Optimizer, Optimizer, Tensor, Tensor], object
        ],
        case: Case,
    ) -> Seen:
        import torch

        generator, discriminator = (Watched(model) for model in _models(case))
        optimizers = (
            torch.optim.SGD(generator.ddp.parameters(), lr=0.2),
            torch.optim.SGD(discriminator.ddp.parameters(), lr=0.2),
        )
        for step in range(case["steps"]):
            samples = _samples(case, step, int(os.environ["RANK"]))
            answer(generator.ddp, discriminator.ddp, *optimizers, *samples)
        return {
            "weights": _weights(generator.module, discriminator.module),
            "counts": {"generator": generator.counts, "discriminator": discriminator.counts},
        }

    def oracle(self, case: Case, world_size: int) -> Oracle:
        right = Trained(weights=_train_alone(case, world_size))
        return {"right": [right] * world_size, "start": _weights(*_models(case))}

    @check("Both models are trained.", gate=True)
    def moves(self, trial: ThisTrial) -> Miss | None:
        """Neither has the weights it began with."""
        for name in _NAMES:
            for rank, seen in trial.seen.items():
                if seen["weights"][name] == trial.oracle["start"][name]:
                    return Miss(
                        f"after {trial.case['steps']} steps the {name} on rank {rank} has not changed"
                    )
        return None

    @check("All ranks end with the same weights.")
    def agree(self, trial: ThisTrial) -> Miss | None:
        for name in reversed(_NAMES):
            for rank, seen in trial.seen.items():
                gap = farthest(seen["weights"][name], trial.seen[0]["weights"][name])
                if gap > 1e-6:
                    return Miss(
                        f"after {trial.case['steps']} steps the {name} of rank {rank} differs from that of rank 0 by "
                        f"up to {gap:.2g}",
                        _known(trial),
                    )
        return None

    @check("The weights are those of one process that trains on the samples of all ranks.")
    def right(self, trial: ThisTrial) -> Miss | None:
        for name in reversed(_NAMES):
            for rank, seen in trial.seen.items():
                right = trial.oracle["right"][rank]["weights"][name]
                if not close(seen["weights"][name], right):
                    gap = farthest(seen["weights"][name], right)
                    return Miss(
                        f"on {toys.ranks_text(trial.world_size)}, the {name} of rank {rank} is off by up to {gap:.2g} "
                        f"after {trial.case['steps']} steps",
                        _known(trial),
                    )
        return None


def _known(trial: ThisTrial) -> str | None:
    """Return the misconception that the counts show."""
    seen = trial.seen[0]["counts"]
    if any(around_the_wrapper(seen[name]) for name in _NAMES):
        return "around_the_wrapper"
    if not_averaged(seen["discriminator"]):
        return "two_backwards"
    if not_averaged(seen["generator"]):
        return "fake_not_detached"
    return None


def _weights(generator: nn.Module, discriminator: nn.Module) -> dict[str, list[float]]:
    return {
        "generator": numbers(generator.parameters()),
        "discriminator": numbers(discriminator.parameters()),
    }


def _train_alone(case: Case, world_size: int) -> dict[str, list[float]]:
    """Make the same steps in one process without DDP, on the samples of all ranks."""
    import torch

    softplus = torch.nn.functional.softplus
    generator, discriminator = _models(case)
    optimizer_g, optimizer_d = (
        torch.optim.SGD(model.parameters(), lr=0.2) for model in (generator, discriminator)
    )
    for step in range(case["steps"]):
        parts = [_samples(case, step, rank) for rank in range(world_size)]
        real, noise = (torch.cat(part) for part in zip(*parts, strict=True))
        fake = generator(noise)
        optimizer_d.zero_grad()
        (softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()).backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        softplus(-discriminator(fake)).mean().backward()
        optimizer_g.step()
    return _weights(generator, discriminator)
