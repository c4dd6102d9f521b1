"""Task 1: the mean over the ranks that had something to contribute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Trial, check, gate
from course_lib.tasks.toys import ranks_text
from course_lib.tasks.weights import ROUNDING, close, drawn, farthest, network, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel


class Case(TypedDict):
    """The good ranks."""

    seed: int
    good: list[bool]


class Seen(TypedDict):
    """The return value, and the gradients; None where one is missing."""

    returned: float
    gradients: list[float] | None


class Mean(TypedDict):
    """The right gradients."""

    gradients: list[float]


ThisTrial = Trial[Case, Seen, dict[str, list[Mean]]]


def _network(seed: int) -> nn.Module:
    net = network(seed, 3, 4, 2)
    net.get_parameter("0.bias").requires_grad_(False)
    return net


def _loss(net: nn.Module, case: Case, rank: int) -> Tensor:
    outputs: Tensor = net(drawn(case["seed"] + rank, 4, 3) + rank)
    return outputs.square().mean()


class CorrectMean(Compared[Case, Seen, Mean]):
    """The mean over the ranks that had something to contribute."""

    name = "out_of_memory.correct_mean"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        some = [True] * world_size
        for rank in chance.sample(range(world_size), world_size - 1)[: 1 + chance.randrange(2)]:
            some[rank] = False
        for good in [some, [True] * world_size, [False] * world_size][0 if world_size > 1 else 1 :]:
            yield {"seed": chance.randint(1, 10**6), "good": good}

    def describe(self, case: Case) -> str:
        good = [str(rank) for rank, fine in enumerate(case["good"]) if fine]
        return f"good ranks: {', '.join(good) or 'none'}"

    def trial(self, answer: Callable[[DistributedDataParallel, bool], object], case: Case) -> Seen:
        """Run a backward in which failed ranks contribute zeros, then call the answer."""
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        net = _network(case["seed"])
        ddp, good = DistributedDataParallel(net), case["good"][rank]
        (good * _loss(ddp, case, rank)).backward()
        returned = toys.number(answer(ddp, good))
        trained = [p for p in net.parameters() if p.requires_grad]
        gradients = [p.grad for p in trained if p.grad is not None]
        missing = len(gradients) < len(trained)
        return {"returned": returned, "gradients": None if missing else numbers(gradients)}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Mean]]:
        import torch

        net = _network(case["seed"])
        parameters = [p for p in net.parameters() if p.requires_grad]
        total = [0.0] * sum(p.numel() for p in parameters)
        for rank, fine in enumerate(case["good"]):
            if fine:
                own = numbers(torch.autograd.grad(_loss(net, case, rank), parameters))
                total = [a + b for a, b in zip(total, own, strict=True)]
        good = sum(case["good"])

        return {"right": [{"gradients": [value / max(1, good) for value in total]}] * world_size}

    gives_number = gate("Every rank returns a number.")

    counted = compared(
        "It is the number of good ranks.",
        "on {gang} ({case}), rank {rank} returned {seen:g}",
        of="returned",
        right=lambda trial, _: sum(trial.case["good"]),
        # Ranks are looked at in their order: if another rank is the first that is wrong, rank 0 is right.
        known=lambda _, rank: "only_rank_0_knows" if rank else None,
    )

    @check("On every rank the gradients are the mean over the good ranks; zeros where there is none.")
    def mean(self, trial: ThisTrial) -> Miss | None:
        """Of all parameters that have one."""
        for rank, seen in sorted(trial.seen.items()):
            where = f"on {ranks_text(trial.world_size)} ({self.describe(trial.case)}), "
            if seen["gradients"] is None:
                return Miss(f"{where}a gradient of rank {rank} is None")
            gap = farthest(seen["gradients"], trial.oracle["right"][rank]["gradients"])
            if gap == float("inf"):
                return Miss(f"{where}the gradients of rank {rank} are not numbers")
            if not close(seen["gradients"], trial.oracle["right"][rank]["gradients"]):
                return Miss(f"{where}the gradients of rank {rank} are off by up to {gap:.2g}")
        return None
