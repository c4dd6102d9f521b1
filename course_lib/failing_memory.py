"""A bench for recipes that survive an out-of-memory error: a training in which one chosen allocation fails.

The network is a detector's: a frozen layer, a frozen BatchNorm and one that is not, a head that no batch uses and one
that some use, AdamW with weight decay. What a recipe leaves is compared with one process that never failed. Loads
torch: for ranks.
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
#: Of a place: whose allocation fails (see `_part_of_the_step`), its number there (-1: the last), in which step.
PLACES = {
    "nowhere": ("", 0, 0),
    "first buffers": ("buffers", 0, 0),
    "rebuild": ("rebuild", 0, 1),
    "later buffers": ("buffers", 0, 2),
    "sink": ("sink", 0, 1),
    "forward, first": ("forward", 0, 0),
    "forward, last": ("forward", -1, 2),
    "backward, first": ("backward", 0, 0),
    "backward, middle": ("backward", 14, 1),
    "backward, last": ("backward", -1, 2),
    "optimizer": ("optimizer", 0, 0),
    "optimizer, later": ("optimizer", 0, 3),
    "between": ("between", 0, 2),
}
#: By step, the one rank whose batch uses the head `sometimes`.
_USES_SOMETIMES = {0: 1, 1: 0, 2: 1, 3: 0}


class Net(nn.Module):
    """Layers of every kind that a recipe may forget.

    Args:
        norm: with a frozen BatchNorm, and one that is not.
        heads: with a head that is never used, and one that some batches use.
    """

    def __init__(self, norm: bool = True, heads: bool = True) -> None:
        super().__init__()
        self.stem = nn.Linear(16, 24).requires_grad_(False)
        frozen = nn.BatchNorm1d(24).requires_grad_(False).eval()
        self.norm = nn.Sequential(frozen, nn.BatchNorm1d(24)) if norm else nn.Identity()
        self.layers = nn.Sequential(*(nn.Linear(24, 24) for _ in range(3)), nn.Linear(24, 4))
        self.heads = nn.ModuleDict(
            {"never": nn.Linear(24, 4), "sometimes": nn.Linear(24, 4)} if heads else {}
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs of shape (batch, 4)."""
        outputs: Tensor = self.norm(self.stem(x))
        *layers, last_layer = self.layers
        for layer in layers:
            outputs = layer(outputs).tanh()
        last: Tensor = last_layer(outputs)
        if self.heads and x[0, 0] > 0:
            last = last + self.heads["sometimes"](outputs)
        return torch.tanh(last)


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    """Return the mean loss of a batch."""
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
        """Yield the batches, one for each step; `fails`: what fails in the step of that number."""
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
    """Name the part of the step that allocates, by the innermost frame that tells.

    DDP's own in a forward: `buffers` (their broadcast), `rebuild` (of the buckets) or `sink` (`_DDPSink` copies the
    outputs where DDP looks for unused parameters); else `forward`, `backward`, `optimizer`, or `between` them.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code, file = frame.f_code, frame.f_code.co_filename
        if file.endswith("nn/parallel/distributed.py") and code.co_name in _OWN_PARTS:
            return _OWN_PARTS[code.co_name]
        if code in (Net.forward.__code__, loss_of.__code__):
            return "forward"
        if "torch/optim/" in file:
            return "optimizer"
        if "torch/autograd/" in file and code.co_name in ("backward", "grad"):
            return "backward"
        frame = frame.f_back
    return "between"


#: Functions of `torch/nn/parallel/distributed.py`; `_pre_forward` itself allocates only where it rebuilds the buckets.
_OWN_PARTS = {"_sync_buffers": "buffers", "_pre_forward": "rebuild", "_post_forward": "sink"}


def inputs(number: int, rank: int) -> Tensor:
    """Return a rank's batch, of shape (8, 16); the first column decides whether it uses `sometimes`."""
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * number + rank))
    x[:, 0] = 1.0 if _USES_SOMETIMES.get(number) == rank else -1.0
    return x


def new(norm: bool = True, heads: bool = True) -> tuple[Net, Optimizer]:
    """Make the same network on all ranks, and AdamW."""
    torch.manual_seed(0)
    net = Net(norm, heads)
    return net, AdamW(net.parameters(), lr=0.01, weight_decay=0.1, eps=1e-3)


def weights(net: nn.Module) -> Tensor:
    """Return all weights in one row."""
    return nn.utils.parameters_to_vector(net.parameters()).detach()


def alone(world: int, failing: int, counts: Collection[tuple[int, int]], **model: bool) -> Tensor:
    """Return one process's weights without DDP; `counts`: batches (number, rank) that count in the failing step."""
    net, optimizer = new(**model)
    for number in range(STEPS):
        those = counts if number == failing else [(number, rank) for rank in range(world)]
        if those:
            optimizer.zero_grad()
            torch.stack([loss_of(net, inputs(*batch)) for batch in those]).mean().backward()
            optimizer.step()
    return weights(net)


@functools.cache
def allocations(part: str, number: int, rank: int, **model: bool) -> int:
    """Count the allocations of a rank's step in this part, without DDP."""
    with Memory() as memory:
        net, optimizer = new(**model)
        memory.begin_step(None)
        loss_of(net, inputs(number, rank)).backward()
        optimizer.step()
    return int(memory.counts[part])


def every_step(step: Step, **options: Any) -> Loop:
    """Make a training that wraps the network with these options of DDP, and does each step like this.

    DDP is made to look for unused parameters if the network has heads that may be unused.
    """

    def loop(net: nn.Module, optimizer: Optimizer, batches: Iterable[Tensor]) -> None:
        unused = {"find_unused_parameters": bool(net.heads)}
        ddp = DistributedDataParallel(net, bucket_cap_mb=0.002, **{**unused, **options})
        for x in batches:
            step(ddp, optimizer, x)

    return loop


def trained(loop: Loop, place: str, *, bad: int = 1, **model: bool) -> dict[str, Any]:
    """Train on all ranks; what one rank finds in the end.

    Args:
        place: where an allocation fails, on the rank `bad`: see `PLACES`.
        model: see `Net`.
    """
    rank = dist.get_rank()
    part, number, failing = PLACES[place]
    if number < 0:
        number += allocations(part, failing, bad, **model)
    net, optimizer = new(**model)
    own_batches = [inputs(at, rank) for at in range(STEPS)]
    with Memory() as memory:
        loop(net, optimizer, memory.watching(own_batches, {failing: (part, number)} if rank == bad else {}))
    return {**compared(net, failing, bad, **model), "struck": memory.struck}


def compared(net: nn.Module, failing: int, bad: int, **model: bool) -> dict[str, Any]:
    """Tell whose weights this network has after a training in which one rank failed in one step.

    Returns:
        `equal`: on all ranks; `weights`: of one process that ends like this; `frozen`: what is frozen is as it was.
    """
    world, own = dist.get_world_size(), weights(net)
    everyones = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(everyones, own)
    good = [(failing, rank) for rank in range(world) if rank != bad]
    ends = {
        "as if nothing had failed": [*good, (failing, bad)],
        "without that batch": good,
        "without that step": [],
    }
    fits = [
        name
        for name, counts in ends.items()
        if torch.allclose(own, alone(world, failing, counts, **model), rtol=0, atol=1e-5)
    ]
    return {
        "equal": all(torch.equal(own, other) for other in everyones),
        "weights": fits[0] if fits else "of no such process",
        "frozen": all(map(torch.equal, _frozen(net), _frozen(new(**model)[0]))),
    }


def _frozen(net: nn.Module) -> list[Tensor]:
    """Return parameters and statistics that no training may change, and the modes of the modules."""
    still: list[Tensor] = [p for p in net.parameters() if not p.requires_grad]
    still += [b for m in net.modules() if not m.training for b in m.buffers(recurse=False)]
    return [*still, torch.tensor([module.training for module in net.modules()])]
