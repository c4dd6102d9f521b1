"""A network that runs out of memory at a chosen place, and what training with it gives: rightly, and otherwise.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from course_lib.tasks.weights import added, drawn, fill, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

#: Steps of a training, and layers of the network.
STEPS, LAYERS = 4, 3
_SIZES = (4, 5, 5, 2)
#: More bytes than an address space has: the allocator refuses, on every machine.
_PETABYTE = 2**50


#: In the forward, or in the backward with the gradients of so many layers.
Place = Literal["forward"] | int


class Failure(TypedDict):
    """Where a rank runs out of memory in a step."""

    step: int
    rank: int
    place: Place


class Case(TypedDict):
    """Batches of this size, and all failures. The network of the kind `buffers` has a buffer that stays as it is."""

    kind: str
    seed: int
    size: int
    fails: list[Failure]


@dataclass
class Trap:
    """Where a network runs out of memory from now on."""

    place: Place | None = None


@dataclass(frozen=True)
class Way:
    """How a step deals with ranks that have failed.

    Attributes:
        divides: the sum of gradients by the good ranks, or by all.
        partial: what a failed rank has of its gradient is added.
        skips: no step at all when any rank has failed.
        stays: no step when all ranks have failed; else one with a gradient of zeros.
    """

    divides: Literal["good", "all"] = "good"
    partial: bool = False
    skips: bool = False
    stays: bool = True


#: By misconception; a slash and a variant may follow.
WAYS = {
    "right": Way(),
    "zeros_counted": Way("all"),
    "zeros_counted/stepped": Way("all", stays=False),
    "skipped_by_all": Way(skips=True),
    "half_gradient": Way(partial=True),
    "half_gradient/all": Way("all", partial=True),
    "half_gradient/stepped": Way("all", partial=True, stays=False),
    "nobody_good": Way(stays=False),
}


def is_the_trap(message: str) -> bool:
    """Whether an error was raised by a network that had been told to run out of memory."""
    return str(_PETABYTE) in message


def network(case: Case, trap: Trap) -> nn.Module:
    """Three layers, and before them a factor in a buffer where the case wants one.

    While the trap is set, memory runs out in each forward or backward of a sample or more.

    Its place is "forward", or how many layers have their gradients before the allocation fails: 0, 1 or 2. (All three
    would depend on whether the input gets a gradient.)
    """
    import torch

    class Scratch(torch.autograd.Function):
        """The identity; its backward needs some memory for a moment."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, needs: int) -> Tensor:
            ctx.needs = needs
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
            torch.empty(ctx.needs, dtype=torch.uint8)
            return gradients[0], None

    scratch: Callable[[Tensor, int], Tensor] = Scratch.apply

    class Net(torch.nn.Module):
        scale: Tensor | None

        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairwise(_SIZES))
            self.register_buffer("scale", torch.tensor(0.5) if case["kind"] == "buffers" else None)

        def forward(self, x: Tensor) -> Tensor:
            place = trap.place if len(x) else None
            x = x if self.scale is None else x * self.scale
            for number, layer in enumerate(self.layers):
                x = layer(scratch(x, _PETABYTE if place == LAYERS - number else 0)).tanh()
                if place == "forward" and number == 1:
                    torch.empty(_PETABYTE, dtype=torch.uint8)
            return scratch(x, _PETABYTE if place == 0 else 0)

    return fill(Net(), case["seed"])


def batch(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Inputs of shape (size, 4) and targets of shape (size, 2)."""
    data = drawn(case["seed"] + 100 * step + rank, case["size"], 6) + 0.5 * rank
    return data[:, :4], data[:, 4:]


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """One loss a sample."""
    return (outputs - targets).square().mean(1)


def place_of(case: Case, step: int, rank: int) -> Place | None:
    """Where this rank runs out of memory in this step."""
    fails = (one["place"] for one in case["fails"] if (one["step"], one["rank"]) == (step, rank))
    return next(fails, None)


def optimizer_of(net: nn.Module) -> Optimizer:
    """An optimizer that remembers."""
    import torch

    return torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)


def trained(case: Case, ranks: int, way: Way) -> list[list[float]]:
    """The weights after each step, in one process."""
    import torch

    net = network(case, Trap())
    optimizer, after = optimizer_of(net), []
    parameters = list(net.parameters())
    for step in range(STEPS):
        places = [place_of(case, step, rank) for rank in range(ranks)]
        gradients = []
        for rank in range(ranks):
            inputs, targets = batch(case, step, rank)
            gradients.append(torch.autograd.grad(losses_of(net(inputs), targets).mean(), parameters))
        good = places.count(None)
        parts = [_part(g, place, way) for g, place in zip(gradients, places, strict=True)]
        if good == ranks or not (way.skips or (good == 0 and way.stays)):
            divisor = max(1, good) if way.divides == "good" else ranks
            for parameter, *pieces in zip(parameters, *parts, strict=True):
                parameter.grad = added(pieces) / divisor
            optimizer.step()
        after.append(numbers(parameters))
    return after


def _part(gradient: Sequence[Tensor], place: Place | None, way: Way) -> list[Tensor]:
    """What a rank adds to the sum."""
    there = LAYERS if place is None else 0
    if way.partial and isinstance(place, int):
        there = place
    return [g if number >= 2 * (LAYERS - there) else 0 * g for number, g in enumerate(gradient)]
