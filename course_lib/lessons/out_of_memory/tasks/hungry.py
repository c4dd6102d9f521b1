"""A network that runs out of memory at a chosen place, and what one process gets that never does.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from course_lib.tasks.weights import drawn, fill, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

#: Steps of a training, and layers of the network.
STEPS, LAYERS = 4, 3
_SIZES = (4, 5, 5, 2)
#: More bytes than an address space has: the allocator refuses, on every machine.
_PETABYTE = 2**50
#: A batch that fails in the middle of the forward is so far from zero, and scattered as far; no other's mean or
#: variance gets as far as the limit.
_FAR, FAR_LIMIT = 1e4, 50.0


#: In the first allocation of the forward, which may be DDP's own; in the middle of it; or in the backward with the
#: gradients of so many layers.
Place = Literal["first", "forward"] | int


class Failure(TypedDict):
    """A rank's failing step, and the place where its memory runs out."""

    step: int
    rank: int
    place: Place


class Case(TypedDict):
    """The sizes of the ranks' batches by step, and all failures.

    The network of the kind `norm` has a BatchNorm. That of the kind `frozen` has a frozen layer, and AdamW trains it.
    """

    kind: str
    seed: int
    sizes: list[list[int]]
    fails: list[Failure]


@dataclass
class Trap:
    """The place where a network runs out of memory from now on."""

    place: Place | None = None


def is_the_trap(message: str) -> bool:
    """Return whether an error was raised by a network that was made to run out of memory."""
    return str(_PETABYTE) in message


def network(case: Case, trap: Trap) -> nn.Module:
    """Return three layers, with a BatchNorm before them where the case wants one.

    While the trap is set, memory runs out in each forward or backward of a sample or more.

    In backward, its place is how many layers have their gradients before the allocation fails: 0, 1 or 2. (All three
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
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(_SIZES[0]) if case["kind"] == "norm" else torch.nn.Identity()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairwise(_SIZES))
            self.layers[1].requires_grad_(case["kind"] != "frozen")

        def forward(self, x: Tensor) -> Tensor:
            place = trap.place if len(x) else None
            torch.empty(_PETABYTE if place == "first" else 0, dtype=torch.uint8)
            x = self.norm(x)
            for number, layer in enumerate(self.layers):
                x = layer(scratch(x, _PETABYTE if place == LAYERS - number else 0)).tanh()
                if place == "forward" and number == 1:
                    torch.empty(_PETABYTE, dtype=torch.uint8)
            return scratch(x, _PETABYTE if place == 0 else 0)

    return fill(Net(), case["seed"])


def wrapped(net: nn.Module, trap: Trap) -> DistributedDataParallel:
    """Wrap in DDP with a bucket for each parameter; DDP's own part of the forward runs out of memory, too."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils._python_dispatch import TorchDispatchMode

    class Nothing(TorchDispatchMode):
        """No operation in this block gets memory."""

        def __torch_dispatch__(self, *operation: object) -> None:
            torch.empty(_PETABYTE, dtype=torch.uint8)

    class Wrapper(DistributedDataParallel):
        def _pre_forward(self, *inputs: Tensor, **named: object) -> object:
            own_part: Callable[..., object] = super()._pre_forward
            springs = trap.place == "first" and any(map(len, inputs))
            left: Callable[[], AbstractContextManager[object]] = Nothing if springs else nullcontext
            with left():
                return own_part(*inputs, **named)

    return Wrapper(net, bucket_cap_mb=1e-6)


def batch(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return inputs of shape (size, 4) and targets of shape (size, 2)."""
    data = drawn(case["seed"] + 100 * step + rank, case["sizes"][step][rank], 6) + 0.5 * rank
    far = case["kind"] == "norm" and place_of(case, step, rank) == "forward"
    return data[:, :4] * (1 + far * _FAR) + far * _FAR, data[:, 4:]


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return one loss per sample."""
    return (outputs - targets).square().mean(1)


def place_of(case: Case, step: int, rank: int) -> Place | None:
    """Return where this rank runs out of memory in this step."""
    fails = (one["place"] for one in case["fails"] if (one["step"], one["rank"]) == (step, rank))
    return next(fails, None)


def optimizer_of(case: Case, net: nn.Module) -> Optimizer:
    """Return an optimizer with momentum, whose weight decay moves what has a gradient, even of zero."""
    import torch

    if case["kind"] == "frozen":  # with an eps that makes rounding no matter where a gradient is almost zero
        return torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1, eps=0.1)
    return torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)


def trained(case: Case, ranks: int) -> list[list[float]]:
    """Return the weights after each step of one process that leaves out the batches of ranks that fail."""
    import torch

    net = network(case, Trap())
    optimizer, after = optimizer_of(case, net), []
    for step in range(STEPS - (case["kind"] == "other")):  # an error of another kind ends the last one
        batches = [batch(case, step, rank) for rank in range(ranks) if place_of(case, step, rank) is None]
        if batches:
            optimizer.zero_grad()
            losses = torch.cat([losses_of(net(inputs), targets) for inputs, targets in batches])
            losses.mean().backward()
            optimizer.step()
        after.append(numbers(net.parameters()))
    return after
