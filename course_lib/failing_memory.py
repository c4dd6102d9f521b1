"""A bench for recipes that survive an out-of-memory error: a training in which one chosen allocation fails.

The network has a BatchNorm, a frozen layer and AdamW with weight decay. What a recipe leaves is compared with one
process that never failed. Loads torch: for ranks.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW, Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

#: One training step: the wrapped model, its optimizer, this rank's batch.
Step = Callable[[DistributedDataParallel, Optimizer, Tensor], object]
#: A whole training: the network, its optimizer, this rank's batches.
Loop = Callable[[nn.Module, Optimizer, Iterable[Tensor]], object]

STEPS = 5
#: More bytes than an address space has: the allocator refuses.
PETABYTE = 2**50
#: Of a place: the part of the step, the number of the allocation in it that fails (-1: the last), the step.
PLACES = {
    "nowhere": ("", 0, 0),
    "first buffers": ("wrapper", 0, 0),
    "rebuild": ("wrapper", 0, 1),
    "later buffers": ("wrapper", 0, 2),
    "forward, first": ("forward", 0, 0),
    "forward, last": ("forward", -1, 2),
    "backward, first": ("backward", 0, 0),
    "backward, middle": ("backward", 14, 1),
    "backward, last": ("backward", -1, 2),
    "optimizer": ("optimizer", 0, 0),
    "between": ("between", 0, 2),
}


class Net(nn.Module):
    """A frozen layer, a BatchNorm, four layers more."""

    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        self.stem = nn.Linear(16, 24).requires_grad_(False)
        self.norm = nn.BatchNorm1d(24) if norm else nn.Identity()
        self.layers = nn.Sequential(*(nn.Linear(24, 24) for _ in range(3)), nn.Linear(24, 4))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of shape (batch, 4)."""
        outputs: Tensor = self.norm(self.stem(x))
        for layer in self.layers:
            outputs = layer(outputs).tanh()
        return outputs


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    """The mean loss of a batch."""
    loss: Tensor = (model(x) - 0.5).square().mean()
    return loss


class Memory(TorchDispatchMode):
    """Counts allocations by the part of the step that they are made for; the one that is wanted fails."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fails: tuple[str, int] | None = None
        self.counts: dict[str, int] = {}
        self.struck = False

    def begin_step(self, fails: tuple[str, int] | None) -> None:
        """Count from zero; `fails`: the part of the step and the number of the allocation in it that fails."""
        self.fails, self.counts = fails, {}

    def watching(self, batches: Iterable[Tensor], fails: Mapping[int, tuple[str, int]]) -> Iterator[Tensor]:
        """The batches, one for each step; `fails`: what fails in the step of that number."""
        for number, x in enumerate(batches):
            self.begin_step(fails.get(number))
            yield x

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema
        makes_a_tensor = any(
            "Tensor" in str(made.type) and made.alias_info is None for made in schema.returns
        )
        if func.namespace == "aten" and makes_a_tensor and not schema.is_mutable:
            part = _part_of_the_step()
            number = self.counts.get(part, 0)
            self.counts[part] = number + 1
            if self.fails == (part, number):
                self.struck, self.fails = True, None
                torch.empty(PETABYTE, dtype=torch.uint8)
        return func(*args, **(kwargs or {}))


def _part_of_the_step() -> str:
    """Whose allocation is it: DDP's own part of the forward, forward, backward, the optimizer, or the recipe's own?"""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code, file = frame.f_code, frame.f_code.co_filename
        if file.endswith("nn/parallel/distributed.py") and code.co_name in ("_pre_forward", "_post_forward"):
            return "wrapper"
        if code in (Net.forward.__code__, loss_of.__code__):
            return "forward"
        if "torch/optim/" in file:
            return "optimizer"
        if "torch/autograd/" in file and code.co_name in ("backward", "grad"):
            return "backward"
        frame = frame.f_back
    return "between"


def inputs(number: int, rank: int) -> Tensor:
    """A rank's batch of that number, of shape (8, 16)."""
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * number + rank))


def new(norm: bool = True) -> tuple[Net, Optimizer]:
    """The same network on all ranks, and AdamW."""
    torch.manual_seed(0)
    net = Net(norm)
    return net, AdamW(net.parameters(), lr=0.01, weight_decay=0.1, eps=1e-3)


def weights(net: nn.Module) -> Tensor:
    """All weights in one row."""
    return nn.utils.parameters_to_vector(net.parameters()).detach()


def alone(world: int, norm: bool, failing: int, members: Collection[int]) -> Tensor:
    """The weights that one process ends with, without DDP; whose batches count in the failing step."""
    net, optimizer = new(norm)
    for number in range(STEPS):
        those = members if number == failing else range(world)
        if those:
            optimizer.zero_grad()
            torch.stack([loss_of(net, inputs(number, rank)) for rank in those]).mean().backward()
            optimizer.step()
    return weights(net)


@functools.cache
def allocations(part: str, norm: bool) -> int:
    """How many allocations a step has in this part, without DDP."""
    with Memory() as memory:
        net, optimizer = new(norm)
        memory.begin_step(None)
        loss_of(net, inputs(0, 0)).backward()
        optimizer.step()
    return int(memory.counts[part])


def every_step(step: Step, **options: Any) -> Loop:
    """A training that wraps the network with these options of DDP, and does each step like this."""

    def loop(net: nn.Module, optimizer: Optimizer, batches: Iterable[Tensor]) -> None:
        ddp = DistributedDataParallel(net, bucket_cap_mb=0.002, **options)
        for x in batches:
            step(ddp, optimizer, x)

    return loop


def trained(loop: Loop, place: str, *, norm: bool = True, bad: int = 1) -> dict[str, Any]:
    """Train on all ranks; what one rank finds in the end.

    Args:
        place: where an allocation fails, on the rank `bad`: see `PLACES`.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    part, number, failing = PLACES[place]
    if number < 0:
        number += allocations(part, norm)
    net, optimizer = new(norm)
    own_batches = [inputs(at, rank) for at in range(STEPS)]
    with Memory() as memory:
        loop(net, optimizer, memory.watching(own_batches, {failing: (part, number)} if rank == bad else {}))
    own = weights(net)
    everyones = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(everyones, own)
    good = [other for other in range(world) if other != bad]
    ends = {
        "as if nothing had failed": alone(world, norm, failing, range(world)),
        "without that batch": alone(world, norm, failing, good),
        "without that step": alone(world, norm, failing, []),
    }
    fits = [name for name, right in ends.items() if torch.allclose(own, right, rtol=0, atol=1e-5)]
    return {
        "equal": all(torch.equal(own, other) for other in everyones),
        "weights": fits[0] if fits else "of no such process",
        "frozen": torch.equal(net.stem.weight, new(norm)[0].stem.weight),
        "struck": memory.struck,
    }
