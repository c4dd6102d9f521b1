"""Lesson 07: models of single weights, the two models of a forum, and the places where a parameter can live.

Imported by ranks; needs torch. A weight is 1 and a rank's sample is 1 on rank 0 and 3 on rank 1, so a gradient tells
who is in it: 1 and 3 are what each rank computed alone, 2 on both is their mean.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.lab.patterns import MODES, batch, loss

STEPS = 3


def one(weight: float = 1.0) -> nn.Linear:
    """Make a layer with one weight."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, weight)
    return layer


def mine() -> Tensor:
    """Return this rank's sample: 1 on rank 0, 3 on rank 1."""
    return torch.tensor([[1.0 + 2 * dist.get_rank()]])


class Auto(nn.Module):
    """Two methods, a weight in each, and no forward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = one(), one()

    def encode(self, x: Tensor) -> Tensor:
        """Apply the inner weight."""
        return self.inner(x)  # type: ignore[no-any-return]

    def decode(self, code: Tensor) -> Tensor:
        """Apply the outer weight."""
        return self.outer(code)  # type: ignore[no-any-return]


def grads(model: nn.Module) -> list[float | None]:
    """Return what `.grad` of each parameter holds on this rank."""
    return [None if p.grad is None else float(p.grad) for p in model.parameters()]


def apart_by(tensors: Iterable[Tensor]) -> float:
    """Return the largest difference between the ranks."""
    low = torch.cat([tensor.detach().flatten() for tensor in tensors])
    high = low.clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    return float((high - low).max())


# The forum's two models, A of two features of B


class B(nn.Module):
    """A feature of one image, by the first of so many paths, or by that whose number comes with the image."""

    def __init__(self, buffers: bool = False, paths: int = 1) -> None:
        super().__init__()
        self.stem = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6) if buffers else nn.Identity()
        self.paths = nn.ModuleList([nn.Linear(6, 6) for _ in range(paths)])

    def forward(self, x: Tensor | tuple[Tensor, int]) -> Any:
        """Return the feature."""
        image, path = x if isinstance(x, tuple) else (x, 0)
        return self.paths[path](self.norm(self.stem(image)).tanh())


class A(nn.Module):
    """A score of two features."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Bilinear(6, 6, 1)

    def forward(self, one: Tensor, other: Tensor) -> Any:
        """Return the score."""
        return self.score(one, other)


#: A model, wrapped.
Wrap = Callable[[nn.Module], nn.Module]


def three_steps(
    wrap: Callable[[nn.Module, nn.Module, Wrap], Callable[..., Tensor]],
    ddp: Wrap,
    buffers: bool,
    different: bool,
) -> str:
    """Train A and B, wrapped in this way, for three steps: right, wrong, or an error.

    Args:
        wrap: makes of A, B and DDP what is called with two images.
        ddp: DDP with its flags.
        buffers: whether B has a BatchNorm.
        different: whether the second image takes another path through B.
    """
    torch.manual_seed(0)
    nets = A(), B(buffers, 1 + different)
    twins = copy.deepcopy(nets)
    call = wrap(*nets, ddp)
    for step in range(STEPS):
        x, y = (batch(2 * step), 0), (batch(2 * step + 1), int(different))
        try:
            loss(call(x, y), 1.0).backward()
        except RuntimeError as error:
            return "raises" if "ready only once" in str(error) else str(error)
        a, b = twins
        loss(a(b(x), b(y)), 1.0).backward()
        for net, twin in zip(nets, twins, strict=True):
            for got, right in zip(net.parameters(), twin.parameters(), strict=True):
                assert got.grad is not None
                assert right.grad is not None
                dist.all_reduce(right.grad, dist.ReduceOp.AVG)
                if not torch.allclose(got.grad, right.grad, rtol=1e-3, atol=1e-6):
                    return "wrong"
            net.zero_grad()
            twin.zero_grad()
    return "right"


# Where a parameter can live


class Net(nn.Module):
    """A body, more layers, a head and a scale; on rank 1 every weight is 2 until DDP makes it equal."""

    def __init__(self) -> None:
        super().__init__()
        weight = 1.0 + dist.get_rank()
        self.body, self.head, self.more = one(weight), one(weight), list[nn.Module]()
        self.scale = nn.Parameter(torch.full((1,), weight))

    def forward(self, x: Tensor) -> Any:
        """Pass x through all of it."""
        x = self.body(x)
        for layer in self.more:
            x = layer(x)
        return self.head(x) * self.scale


class ScaledOutside(Net):
    """The scale is a parameter of the module, and only the loss uses it."""

    def forward(self, x: Tensor) -> Any:
        """Return the output without the scale."""
        return self.head(self.body(x))


#: What is done after wrapping, the parameter in question, and the output of a step.
Place = tuple[Callable[[], object], Callable[[], Tensor], Callable[[nn.Module, Tensor], Tensor]]
PLACES: dict[str, tuple[type[Net], Callable[[Any], Place]]] = {}


def place(name: str, kind: type[Net] = Net) -> Callable[[Callable[[Any], Place]], Callable[[Any], Place]]:
    """Enter a place in `PLACES`."""

    def keep(function: Callable[[Any], Place]) -> Callable[[Any], Place]:
        PLACES[name] = kind, function
        return function

    return keep


def _nothing() -> None:
    """Do nothing after wrapping."""


def _call(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)  # type: ignore[no-any-return]


@place("in forward")
def _inside(net: Net) -> Place:
    return _nothing, lambda: net.head.weight, _call


@place("in forward, and in the loss")
def _in_both(net: Net) -> Place:
    return _nothing, lambda: net.head.weight, lambda m, x: m(x) + 10 * x * net.head.weight


@place("in the module, used in the loss only", ScaledOutside)
def _in_loss_only(net: Net) -> Place:
    return _nothing, lambda: net.scale, lambda m, x: m(x) * net.scale


@place("one weight, two layers")
def _tied(net: Net) -> Place:
    net.head.weight = net.body.weight
    return _nothing, lambda: net.body.weight, _call


@place("one weight, inside and in a head outside")
def _tied_outside(net: Net) -> Place:
    outside = one()
    outside.weight = net.body.weight
    return _nothing, lambda: outside.weight, lambda m, x: outside(m(x))


@place("in a head outside")
def _outside(net: Net) -> Place:
    outside = one(1.0 + dist.get_rank())
    return _nothing, lambda: outside.weight, lambda m, x: outside(m(x))


@place("in a plain list of the module")
def _listed(net: Net) -> Place:
    layer = one(1.0 + dist.get_rank())
    net.more.append(layer)
    return _nothing, lambda: layer.weight, _call


@place("added after wrapping")
def _added(net: Net) -> Place:
    layer = one(1.0 + dist.get_rank())

    def add() -> None:
        net.new = layer
        net.more.append(layer)

    return add, lambda: layer.weight, _call


@place("put in another's place after wrapping")
def _replaced(net: Net) -> Place:
    def replace() -> None:
        net.head = one(1.0 + dist.get_rank())

    return replace, lambda: net.head.weight, _call


@place("frozen when wrapped, thawed later")
def _thawed(net: Net) -> Place:
    net.head.requires_grad_(False)
    return lambda: net.head.requires_grad_(True), lambda: net.head.weight, _call


def steps(name: str, mode: str, around: bool = False) -> Iterator[float | str]:
    """Yield the parameter once wrapped, then its `.grad` after each of three steps; an error's words come last.

    Args:
        around: whether the model is called through `.module`.
    """
    kind, function = PLACES[name]
    net = kind()
    afterwards, parameter, output = function(net)
    ddp = DistributedDataParallel(net, **MODES[mode])
    afterwards()
    yield parameter().item()
    for _ in range(STEPS):
        try:
            output(ddp.module if around else ddp, mine()).sum().backward()
        except RuntimeError as error:
            yield str(error).partition(". ")[0].partition(", e.g.")[0]
            return
        grad = parameter().grad
        assert grad is not None
        yield float(grad)
        ddp.zero_grad()
        parameter().grad = None
