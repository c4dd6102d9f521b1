"""Lesson 06, Deeper: what people do with a wrapped model, and how far its gradients then are from the right ones.

Imported by ranks; needs torch. The model is tiny and awkward on purpose: two blocks that may be taken in any order,
several times or not at all, and, where it is asked for, a BatchNorm, whose running statistics are buffers. Right is
what DDP promises: the mean over the ranks of what each rank would have computed alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

#: How far gradients are off (percent, in the worst step), or how the run failed.
Found = float | str
Wrap = Callable[[nn.Module], nn.Module]
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "find_unused_parameters": {"find_unused_parameters": True},
    "static_graph": {"static_graph": True},
}


class Net(nn.Module):
    """Stem, a path through the blocks `l` and `r`, head."""

    def __init__(self, buffers: bool) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6) if buffers else nn.Identity()
        self.l, self.r = (nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in "lr")

    def forward(
        self, x: Tensor, path: str = "lr", part: Callable[..., Any] = lambda block, x: block(x)
    ) -> Any:
        """Call the blocks of the path, each by `part`."""
        x = self.norm(self.stem(x))
        for name in path:
            x = part(getattr(self, name), x)
        return self.head(x)


class TwoHeads(Net):
    """The blocks side by side: two outputs of one body."""

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        """Return both outputs."""
        x = self.head(self.norm(self.stem(x)))
        return self.l(x), self.r(x)


class Twice(Net):
    """Nothing but a reentrant checkpoint around the whole network, used two times."""

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        """Pass x twice through all of it."""
        once = super().forward
        return checkpoint(once, checkpoint(once, x, use_reentrant=True), use_reentrant=True)


@dataclass(frozen=True)
class Pattern:
    """One training step as people write it: called with two batches and the wrapped models."""

    step: Callable[..., None]
    models: int = 1
    net: Callable[[bool], nn.Module] = Net


PATTERNS: dict[str, Pattern] = {}


def pattern(
    name: str, models: int = 1, net: Callable[[bool], nn.Module] = Net
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enter a step in `PATTERNS`."""

    def keep(step: Callable[..., None]) -> Callable[..., None]:
        PATTERNS[name] = Pattern(step, models, net)
        return step

    return keep


def loss(y: Tensor, target: float = 0.0) -> Tensor:
    """Return the mean square of the difference."""
    return (y - target).square().mean()


def batch(number: int) -> Tensor:
    """Return this rank's samples."""
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * number + dist.get_rank()))


def measure(name: str, wrap: Wrap, buffers: bool = False) -> Found:
    """Return how far a wrapped model's gradients are from the right ones, or the first words of an error.

    They begin with "late: " where a step before the error was wrong, and nothing was raised then.
    """
    done = PATTERNS[name]
    nets, worst, message = _build(done, buffers), torch.zeros(()), ""
    try:
        models = [wrap(net) for net in nets]
        for step, right in enumerate(_right_gradients(name, buffers)):
            got = _run_step(done, step, nets, models)
            worst = worst.maximum((got - right).norm() / right.norm())
            _descend(nets, right)
    except RuntimeError as error:
        message = str(error).partition(".")[0]
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    percent = round(100 * worst.item(), 3)
    return ("late: " if percent > 0.1 else "") + message if message else percent


def measure_all() -> dict[tuple[str, str, bool], Found]:
    """Measure every pattern in every mode, without and with buffers."""
    return {
        (name, mode, buffers): measure(name, partial(DistributedDataParallel, **options), buffers)
        for name in PATTERNS
        for mode, options in MODES.items()
        for buffers in (False, True)
    }


def _parameters(nets: Iterable[nn.Module]) -> list[nn.Parameter]:
    return [p for net in nets for p in net.parameters()]


def _build(done: Pattern, buffers: bool) -> list[nn.Module]:
    torch.manual_seed(0)
    return [done.net(buffers) for _ in range(done.models)]


def _run_step(done: Pattern, step: int, nets: Sequence[nn.Module], models: Sequence[nn.Module]) -> Tensor:
    """Return all gradients after one step as one vector; zeros where there is none."""
    for net in nets:
        net.zero_grad()
    done.step(batch(2 * step), batch(2 * step + 1), *models)
    return torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in _parameters(nets)]
    )


@cache
def _right_gradients(name: str, buffers: bool) -> list[Tensor]:
    """Return the gradients of three steps without DDP, averaged by hand."""
    done, right = PATTERNS[name], []
    nets = _build(done, buffers)
    for step in range(3):
        mean = _run_step(done, step, nets, nets)
        dist.all_reduce(mean)
        right.append(mean / dist.get_world_size())
        _descend(nets, right[-1])
    return right


@torch.no_grad()
def _descend(nets: Sequence[nn.Module], gradient: Tensor) -> None:
    params = _parameters(nets)
    for p, g in zip(params, gradient.split([p.numel() for p in params]), strict=True):
        p.sub_(g.view_as(p), alpha=0.1)


# `F` is a forward, `B` a backward.


@pattern("F F, one B")
def _two_forwards(a: Tensor, b: Tensor, m: nn.Module) -> None:
    (loss(m(a)) + loss(m(b), target=1.0)).backward()


@pattern("F F, then B B")
def _two_backwards(a: Tensor, b: Tensor, m: nn.Module) -> None:
    first, second = loss(m(a)), loss(m(b), target=1.0)
    first.backward()
    second.backward()


@pattern("A(B(x)), two DDP models", models=2)
def _chained(a: Tensor, b: Tensor, outer: nn.Module, inner: nn.Module) -> None:
    loss(outer(inner(a))).backward()


@pattern("A(B(a), B(b)), two DDP models", models=2)
def _chained_twice(a: Tensor, b: Tensor, outer: nn.Module, inner: nn.Module) -> None:
    loss(outer(inner(a) - inner(b))).backward()


@pattern("F B, F B")
def _alternating(a: Tensor, b: Tensor, m: nn.Module) -> None:
    loss(m(a)).backward()
    loss(m(b), target=1.0).backward()


@pattern("F, B twice (retain_graph)")
def _retained(a: Tensor, b: Tensor, m: nn.Module) -> None:
    y = m(a)
    loss(y).backward(retain_graph=True)
    loss(y, target=1.0).backward()


@pattern("two heads, one B", net=TwoHeads)
def _heads_added(a: Tensor, b: Tensor, m: nn.Module) -> None:
    left, right = m(a)
    (loss(left) + loss(right, target=1.0)).backward()


@pattern("two heads, a B each", net=TwoHeads)
def _head_by_head(a: Tensor, b: Tensor, m: nn.Module) -> None:
    left, right = m(a)
    loss(left).backward(retain_graph=True)
    loss(right, target=1.0).backward()


@pattern("two heads, F B each", net=TwoHeads)
def _heads_by_turns(a: Tensor, b: Tensor, m: nn.Module) -> None:
    loss(m(a)[0]).backward()
    loss(m(b)[1], target=1.0).backward()


@pattern("F without B, then F B")
def _discarded(a: Tensor, b: Tensor, m: nn.Module) -> None:
    m(b)
    loss(m(a)).backward()


@pattern("F, F of one path without B, B")
def _discarded_part(a: Tensor, b: Tensor, m: nn.Module) -> None:
    y = m(a)
    m(b, path="l")
    loss(y).backward()


@pattern("F of one path, F without B, B")
def _discarded_whole(a: Tensor, b: Tensor, m: nn.Module) -> None:
    y = m(a, path="l")
    m(b)
    loss(y).backward()


@pattern("F, no_grad F, B")
def _peek(a: Tensor, b: Tensor, m: nn.Module) -> None:
    first = loss(m(a))
    with torch.no_grad():
        m(b)
    first.backward()


@pattern("autograd.grad of parameters")
def _functional(a: Tensor, b: Tensor, m: nn.Module) -> None:
    params = list(m.parameters())
    for p, g in zip(params, torch.autograd.grad(loss(m(a)), params), strict=True):
        p.grad = g


@pattern("F through .module, B")
def _unwrapped(a: Tensor, b: Tensor, m: nn.Module) -> None:
    inside: nn.Module = getattr(m, "module", m)
    loss(inside(a)).backward()


@pattern("gradient penalty")
def _penalty(a: Tensor, b: Tensor, m: nn.Module) -> None:
    y = m(a.requires_grad_())
    (g,) = torch.autograd.grad(y.sum(), a, create_graph=True)
    (loss(y) + (g.norm(dim=1) - 1).square().mean()).backward()


@pattern("frozen F B, then F B")
def _frozen_first(a: Tensor, b: Tensor, m: nn.Module) -> None:
    m.requires_grad_(False)  # as in a generator's turn: the gradient goes through the model, not into it
    loss(m(b.requires_grad_())).backward()
    m.requires_grad_(True)
    loss(m(a)).backward()


@pattern("F F on different paths, one B")
def _branches(a: Tensor, b: Tensor, m: nn.Module) -> None:
    (loss(m(a, path="l")) + loss(m(b, path="r"))).backward()


@pattern("checkpoint, blocks twice")
def _modern(a: Tensor, b: Tensor, m: nn.Module) -> None:
    loss(m(a, path="lrlr", part=partial(checkpoint, use_reentrant=False))).backward()


@pattern("reentrant checkpoint")
def _reentrant(a: Tensor, b: Tensor, m: nn.Module) -> None:
    loss(m(a, part=partial(checkpoint, use_reentrant=True))).backward()


@pattern("reentrant, blocks twice")
def _reentrant_twice(a: Tensor, b: Tensor, m: nn.Module) -> None:
    loss(m(a, path="lrlr", part=partial(checkpoint, use_reentrant=True))).backward()


@pattern("reentrant, whole model twice", net=Twice)
def _reentrant_whole(a: Tensor, b: Tensor, m: nn.Module) -> None:
    loss(m(a.requires_grad_())).backward()


#: How a part of a network can be called.
CHECKPOINTS: dict[str, Callable[..., Any]] = {
    "no checkpoint": lambda part, x: part(x),
    "use_reentrant=False": partial(checkpoint, use_reentrant=False),
    "use_reentrant=True": partial(checkpoint, use_reentrant=True),
}


class Deep(nn.Module):
    """Sixteen layers, called in four parts."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call
        layers = ((nn.Linear(64, 64), nn.Tanh()) for _ in range(16))
        self.parts = nn.ModuleList(nn.Sequential(*chain.from_iterable(islice(layers, 4))) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Pass x through all parts."""
        for part in self.parts:
            x = self.call(part, x)
        return x


class Peak(TorchDispatchMode):
    """Keeps the largest number of bytes that tensors made in it had at one time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make the call, and count what is alive after it."""
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self.made[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
        self.made = {place: each for place, each in self.made.items() if not each[0].expired()}
        self.bytes = max(self.bytes, sum(size for _, size in self.made.values()))
        return made


def peak_of_step(call: Callable[..., Any]) -> float:
    """Return the most megabytes that a step of `Deep` through DDP has in new tensors, after a step before.

    The least of three steps counts: a look at a rank's frames, as that for deadlocks, keeps what is in them alive for
    a moment.
    """
    model = DistributedDataParallel(Deep(call))
    x = torch.zeros(4096, 64, requires_grad=True)  # a layer's output is one megabyte
    model(x).sum().backward()
    peaks = [Peak() for _ in range(3)]
    for peak in peaks:
        with peak:
            model(x).sum().backward()
    return float(min(peak.bytes for peak in peaks) / 2**20)


def rank_0_evaluates(mode: str, buffers: bool, after: int, grad: bool) -> float:
    """Make three steps; after one, rank 0 alone calls the model once more. Return the worst error in percent.

    What is right is computed without a message: each rank knows the other one's samples as well.
    """
    rank, worst = dist.get_rank(), 0.0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6) if buffers else nn.Identity())
    twin = copy.deepcopy(net)
    ddp = DistributedDataParallel(net, **MODES[mode])

    def gradients(model: nn.Module, x: Tensor) -> Tensor:
        model.zero_grad()
        (model(x) - 1).pow(4).mean().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    for step in range(3):
        seeds = [torch.Generator().manual_seed(10 * step + r) for r in range(2)]
        batches = [torch.randn(4, 6, generator=seed) for seed in seeds]
        right = torch.stack([gradients(twin, x) for x in batches]).mean(0)
        worst = max(worst, ((gradients(ddp, batches[rank]) - right).norm() / right.norm()).item())
        if step == after and rank == 0:
            ddp.eval()
            with torch.set_grad_enabled(grad):
                ddp(torch.ones(4, 6))
            ddp.train()
    return round(100 * worst, 3)


def swapped(one_backward: bool, own_groups: bool, warm_up: int, width: int = 6) -> float:
    """Train two models; after `warm_up` equal steps rank 1 swaps them. Return the worst error in percent."""
    rank, worst = dist.get_rank(), 0.0
    torch.manual_seed(0)
    nets: list[nn.Module] = [nn.Linear(6, 6), nn.Linear(6, width)]
    twins = copy.deepcopy(nets)
    models: list[nn.Module] = [
        DistributedDataParallel(net, process_group=dist.new_group() if own_groups else None) for net in nets
    ]

    def train(two: Sequence[nn.Module], order: Sequence[int], x: Tensor) -> None:
        losses = []
        for number in order:
            two[number].zero_grad()
            losses.append((two[number](x) - number).square().mean())
            if not one_backward:
                losses[-1].backward()
        if one_backward:
            torch.stack(losses).sum().backward()

    for step in range(warm_up + 3):
        order = (1, 0) if rank == 1 and step >= warm_up else (0, 1)
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * step + rank))
        train(models, order, x)
        train(twins, order, x)
        for net, twin in zip(_parameters(nets), _parameters(twins), strict=True):
            assert net.grad is not None
            assert twin.grad is not None
            right = twin.grad.clone()
            dist.all_reduce(right, op=dist.ReduceOp.AVG)
            worst = max(worst, ((net.grad - right).norm() / right.norm()).item())
    return 100 * worst
