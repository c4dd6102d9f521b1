"""Lesson 07: models of single weights, the wrapper that a forum proposed, and the places where a parameter can live.

Imported by ranks; needs torch. A weight is 1 and a rank's sample is 1 on rank 0 and 3 on rank 1, so a gradient tells
who is in it: 1 and 3 are what each rank computed alone, 2 on both is their mean.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
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


# The forum's two models, A of two features of B, and its wrapper


class B(nn.Module):
    """A feature of one image, by one of so many paths."""

    def __init__(self, buffers: bool = False, paths: int = 1) -> None:
        super().__init__()
        self.stem = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6) if buffers else nn.Identity()
        self.paths = nn.ModuleList([nn.Linear(6, 6) for _ in range(paths)])

    def forward(self, x: Tensor, path: int = 0) -> Any:
        """Return the feature."""
        return self.paths[path](self.norm(self.stem(x)).tanh())


class A(nn.Module):
    """A score of two features."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Bilinear(6, 6, 1)

    def forward(self, one: Tensor, other: Tensor) -> Any:
        """Return the score."""
        return self.score(one, other)


class Both(nn.Module):
    """A and B in one module."""

    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: Tensor, y: Tensor, paths: tuple[int, int]) -> Any:
        """Return the score of two images."""
        return self.a(self.b(x, paths[0]), self.b(y, paths[1]))


class Pair(nn.Module):
    """The forum's wrapper, repaired: the inner model, which is called for each input of a list."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Sequence[Tensor], paths: Sequence[int]) -> list[Tensor]:
        """Return an output for each input."""
        return [self.inner(each, path) for each, path in zip(inputs, paths, strict=True)]


Wrap = Callable[[nn.Module], nn.Module]
#: A model made of A and B, wrapped; it is called with two images and the path of each.
WRAPPED: dict[str, Callable[[Both, Wrap], Callable[..., Tensor]]] = {
    "two DDP": lambda net, wrap: Both(wrap(net.a), wrap(net.b)),
    "the forum's": lambda net, wrap: _score_pairs(wrap(net.a), wrap(Pair(net.b))),
    "one wrapper": lambda net, wrap: wrap(net),
}


def _score_pairs(outer: nn.Module, inner: nn.Module) -> Callable[..., Tensor]:
    return lambda x, y, paths: outer(*inner([x, y], paths))


def ways(mode: str, buffers: bool, different: bool) -> dict[str, str]:
    """Return how three steps end in each way to wrap A and B."""
    return {way: _ended(way, mode, buffers, different) for way in WRAPPED}


def all_ways() -> dict[tuple[str, bool, bool], dict[str, str]]:
    """Run all modes, with and without a BatchNorm in B, with equal and different paths of its two forwards."""
    return {place: ways(*place) for place in product(MODES, (False, True), (False, True))}


def _ended(way: str, mode: str, buffers: bool, different: bool) -> str:
    torch.manual_seed(0)
    paths = (0, int(different))
    net = Both(A(), B(buffers, 1 + different))
    twin = copy.deepcopy(net)
    call = WRAPPED[way](net, partial(DistributedDataParallel, **MODES[mode]))
    for step in range(STEPS):
        images = batch(2 * step), batch(2 * step + 1)
        try:
            loss(call(*images, paths), 1.0).backward()
        except RuntimeError as error:
            return "raises" if "ready only once" in str(error) else str(error)
        loss(twin(*images, paths), 1.0).backward()
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


def look_everywhere() -> dict[tuple[str, str], list[float | str]]:
    """Run all places, in all modes."""
    return {(name, mode): list(steps(name, mode)) for name in PLACES for mode in MODES}
