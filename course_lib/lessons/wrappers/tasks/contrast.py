"""Task 4: a contrastive loss over the samples of all ranks, of which some have more than others."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.unused.tasks.models import gradients
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Trial, WrongKind, check, gate
from course_lib.tasks.weights import ROUNDING, drawn, network

if TYPE_CHECKING:
    from torch import Tensor, nn

    Loss = Callable[[Tensor, Tensor, Tensor, list[int]], object]


class Case(TypedDict):
    """The number of samples by rank."""

    seed: int
    sizes: list[int]


class Found(TypedDict):
    """A loss, and the averaged gradients."""

    loss: float
    gradients: list[float]


class Seen(Found):
    """The parameters that have no gradient, too."""

    missing: list[str]


ThisTrial = Trial[Case, Seen, dict[str, list[Found]]]


class Contrast(Compared[Case, Seen, Found]):
    """A contrastive loss over the samples of all ranks."""

    name = "wrappers.contrast"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield equal numbers of samples, then different ones, in any order."""
        size = chance.randint(3, 5)
        for sizes in ([size] * world_size, chance.sample(range(2, 6), world_size)):
            yield {"seed": chance.randint(1, 10**6), "sizes": sizes}

    def describe(self, case: Case) -> str:
        return f"{toys.short(case['sizes'])} samples"

    def trial(self, answer: Loss, case: Case) -> Seen:
        import torch

        rank = int(os.environ["RANK"])
        net = _model(case["seed"])

        class WithLoss(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = net

            def forward(self, x: Tensor, y: Tensor) -> object:
                return answer(self.net(x), self.net(y), net.get_parameter("temperature"), list(case["sizes"]))

        ddp = torch.nn.parallel.DistributedDataParallel(WithLoss())
        loss = ddp(*_views(case, rank))
        if not isinstance(loss, torch.Tensor):
            raise toys.wrong_kind(loss)
        if loss.numel() != 1:
            raise WrongKind(f"a tensor with {loss.numel()} numbers")
        loss.sum().backward()
        return {
            "loss": loss.item(),
            "gradients": gradients(net),
            "missing": [name for name, parameter in net.named_parameters() if parameter.grad is None],
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Found]]:
        """Compute what one process finds that has the samples of all ranks."""
        import torch

        net, views = _model(case["seed"]), [_views(case, rank) for rank in range(world_size)]
        ones, others = (net(torch.cat(both)) for both in zip(*views, strict=True))
        scores = ones @ others.T / net.get_parameter("temperature")
        pairs = torch.arange(len(scores))
        both_ways = [torch.nn.functional.cross_entropy(some, pairs) for some in (scores, scores.T)]
        loss = torch.stack(both_ways).mean()
        loss.backward()
        return {"right": [{"loss": loss.item(), "gradients": gradients(net)}] * world_size}

    gives_loss = gate("Every rank returns a loss: a tensor with one number.")

    @check("Every parameter gets a gradient on every rank.")
    def reached(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if seen["missing"]:
                names = ", ".join(seen["missing"])
                return Miss(f"on rank {rank} of {trial.world_size}, no gradient reaches {names}", "cut")
        return None

    #: Also that of the temperature, which is used after the gathering.
    right_gradients = compared(
        "The averaged gradients are those of one process with the samples of all ranks.",
        "with {case}, the gradients on rank {rank} are off by up to {gap:.2g}",
        of="gradients",
    )

    @check("The mean of the ranks' losses is the loss of one process.")
    def right_loss(self, trial: ThisTrial) -> Miss | None:
        """Each rank's own may be that of all samples, or that of its own ones among all."""
        mean = sum(seen["loss"] for seen in trial.seen.values()) / trial.world_size
        right = trial.oracle["right"][0]["loss"]
        if not math.isclose(mean, right, rel_tol=1e-4):
            ranks = "the loss of rank 0 is" if trial.world_size == 1 else "the ranks' losses are on average"
            return Miss(f"with {self.describe(trial.case)}, {ranks} {mean:.4g}; it should be {right:.4g}")
        return None


def _model(seed: int) -> nn.Module:
    """Return an encoder whose embeddings have length 1, with a learned temperature."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = network(seed, 4, 5, 3)
            self.temperature = torch.nn.Parameter(torch.tensor(0.5))

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.normalize(self.encoder(x))

    return Model()


def _views(case: Case, rank: int) -> tuple[Tensor, Tensor]:
    """Return this rank's samples, and the same with some noise."""
    seed, size = case["seed"] + 10 * rank, case["sizes"][rank]
    x = drawn(seed + 1, size, 4)
    return x, x + 0.3 * drawn(seed + 2, size, 4)
