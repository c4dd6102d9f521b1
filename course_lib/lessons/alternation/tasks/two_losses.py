"""Task 3: a body and two heads, trained with one backward."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict
from unittest.mock import patch

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared, same_everywhere
from course_lib.tasks.task import Trial, WrongKind, gate
from course_lib.tasks.weights import ROUNDING, drawn, fill, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

_STEPS, _RATE = 4, 0.1
Batch = tuple["Tensor", "Tensor | None", "Tensor | None"]


class Case(TypedDict):
    """The weights of the two losses; by step and rank, the heads that have a target."""

    seed: int
    weights: list[float]
    heads: list[list[str]]


class Found(TypedDict):
    """The weights after the training, and both losses of each step, one after the other."""

    weights: list[float]
    losses: list[float]


class Seen(Found):
    """A result with the flags of the wrapper that was made, and the numbers of calls."""

    flags: list[str]
    backwards: int
    module: int
    wrapper: int


ThisTrial = Trial[Case, Seen, dict[str, list[Found]]]


def _around(trial: ThisTrial, rank: int) -> str | None:
    seen = trial.seen[rank]
    return "around_the_wrapper" if seen["module"] > seen["wrapper"] else None


def _backward_each(trial: ThisTrial, rank: int) -> str | None:
    return _around(trial, rank) or ("backward_each" if trial.seen[rank]["backwards"] > _STEPS else None)


class TwoLosses(Compared[Case, Seen, Found]):
    """A body and two heads, trained with one backward."""

    name = "alternation.two_losses"
    world_sizes = (2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield steps with targets for both heads, then steps in which the heads of some ranks have none."""
        both = ["both"] * world_size
        none, differ = both.copy(), [chance.choice(("left", "both")) for _ in range(world_size)]
        none[chance.randrange(world_size)] = "none"
        differ[chance.randrange(world_size)] = "right"
        for heads in ([both] * _STEPS, [["right"] * world_size, none, differ, both]):
            weights = [round(chance.uniform(0.2, 0.6), 2), round(chance.uniform(1.5, 2.5), 2)]
            yield {"seed": chance.randint(1, 10**6), "weights": weights, "heads": heads}

    def describe(self, case: Case) -> str:
        complete = all(heads == "both" for step in case["heads"] for heads in step)
        return f"{'all targets' if complete else 'targets missing'} and weights={tuple(case['weights'])}"

    def trial(
        self, answer: Callable[[nn.Module, list[Batch], tuple[float, ...]], object], case: Case
    ) -> Seen:
        from torch.nn.parallel import DistributedDataParallel

        net = _net(case["seed"])
        calls: list[str] = []
        flags: set[str] = set()
        forward: Callable[..., Any] = DistributedDataParallel.forward

        def counted(self: DistributedDataParallel, *inputs: Any, **kwargs: Any) -> Any:
            calls.append("wrapper")
            flags.update(flag for flag in ("find_unused_parameters", "static_graph") if getattr(self, flag))
            return forward(self, *inputs, **kwargs)

        net.register_forward_pre_hook(lambda *_: calls.append("module"))
        next(net.parameters()).register_post_accumulate_grad_hook(lambda _: calls.append("backward"))
        with patch.object(DistributedDataParallel, "forward", counted):
            result = answer(net, _batches(case, int(os.environ["RANK"])), tuple(case["weights"]))
        return {
            "weights": numbers(net.parameters()),
            "losses": _read(result),
            "flags": sorted(flags),
            "backwards": calls.count("backward"),
            "module": calls.count("module"),
            "wrapper": calls.count("wrapper"),
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Found]]:
        return {"right": [_train_alone(case, world_size)] * world_size}

    gives_losses = gate(
        "Every rank returns two losses for each step.", "with {case}, rank {rank} returned {given}"
    )
    default_mode = compared(
        "The model is wrapped in the default mode.",
        "the wrapper of rank {rank} has {seen}",
        of="flags",
        right=lambda *_: [],
        known="flag_instead",
    )
    one_backward = compared(
        "Every step has one backward.",
        f"with {{case}}, rank {{rank}} made {{seen}} backwards through the body in {_STEPS} steps",
        of="backwards",
        right=lambda *_: _STEPS,
        known=_backward_each,
    )
    agree = same_everywhere(
        "All ranks end with the same weights.",
        "with {case}, the weights of rank {rank} differ from those of rank 0 by up to {gap:.2g} in the end",
        of="weights",
        known=_around,
    )
    right_weights = compared(
        "The weights are those of one process that trains on the batches of all ranks.",
        "with {case} on {gang}, the weights of rank {rank} are off by up to {gap:.2g} in the end",
        of="weights",
    )
    right_losses = compared(
        "The losses are the means over all ranks.",
        "with {case} on {gang}, the losses of rank {rank} are off by up to {gap:.2g}",
        of="losses",
    )


def _net(seed: int) -> nn.Module:
    import torch

    class TwoHeads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Linear(4, 5)
            self.left, self.right = torch.nn.Linear(5, 2), torch.nn.Linear(5, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            x = self.body(x).tanh()
            return self.left(x), self.right(x)

    return fill(TwoHeads(), seed)


def _batches(case: Case, rank: int) -> list[Batch]:
    """Return this rank's inputs and targets of all steps."""
    found: list[Batch] = []
    for step, heads in enumerate(case["heads"]):
        seed = case["seed"] + 1000 * step + 10 * rank
        left = drawn(seed + 2, 4, 2) if heads[rank] in ("left", "both") else None
        right = drawn(seed + 3, 4, 1) if heads[rank] in ("right", "both") else None
        found.append((drawn(seed + 1, 4, 4), left, right))
    return found


def _read(result: object) -> list[float]:
    """Return the losses of all steps as numbers."""
    steps = [toys.numbers(step) for step in toys.items(result)]
    if [len(step) for step in steps] != [2] * _STEPS:
        raise WrongKind(f"{toys.short([len(step) for step in steps])} losses in its steps")
    return [loss for step in steps for loss in step]


def _train_alone(case: Case, world_size: int) -> Found:
    """Train one process without DDP on the batches of all ranks."""
    import torch

    net, losses = _net(case["seed"]), []
    optimizer = torch.optim.SGD(net.parameters(), lr=_RATE)
    for step in zip(*(_batches(case, rank) for rank in range(world_size)), strict=True):
        optimizer.zero_grad()
        both = torch.zeros(2)
        for x, *targets in step:
            for head, (output, target) in enumerate(zip(net(x), targets, strict=True)):
                if target is not None:
                    both[head] += torch.nn.functional.mse_loss(output, target) / world_size
        (both @ torch.tensor(case["weights"])).backward()
        optimizer.step()
        losses += both.tolist()
    return {"weights": numbers(net.parameters()), "losses": losses}
