"""Seeded networks that answers train, and their weights as plain numbers that can be compared.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from course_lib.tasks.precision import Tolerance

if TYPE_CHECKING:
    from torch import Tensor, nn

_Net = TypeVar("_Net", bound="nn.Module")

#: Numbers that differ by less are equal: sums over ranks are rounded in another order.
TOLERANCE = 2e-5
#: The same, as `Task.tolerance`.
ROUNDING = Tolerance(TOLERANCE)


def drawn(seed: int, *shape: int) -> Tensor:
    """Draw normal random numbers from this seed alone."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fill(net: _Net, seed: int) -> _Net:
    """Give a module weights that only the seed decides, none of them zero."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.4)
    return net


def network(seed: int, *sizes: int, norm: bool = False) -> nn.Sequential:
    """Return a small network with a Tanh between its layers, and a BatchNorm after the first where asked for."""
    import torch

    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.Tanh()]
    if norm:
        layers.insert(1, torch.nn.BatchNorm1d(sizes[1]))
    return fill(torch.nn.Sequential(*layers[:-1]), seed)


def numbers(tensors: Iterable[Tensor]) -> list[float]:
    """Return tensors, such as a model's parameters, as one flat list."""
    return [value for tensor in tensors for value in tensor.detach().double().flatten().tolist()]


def added(tensors: Iterable[Tensor]) -> Tensor:
    """Add some tensors, in their order."""
    return functools.reduce(operator.add, tensors)


def farthest(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the largest difference; infinite where the lengths differ or one has something other than a number."""
    if len(a) != len(b):
        return float("inf")
    gaps = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return max((gap if gap == gap else float("inf") for gap in gaps), default=0.0)


def close(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether two lists are equal up to rounding."""
    return farthest(a, b) < TOLERANCE
