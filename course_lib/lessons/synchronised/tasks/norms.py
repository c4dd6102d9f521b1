"""BatchNorm as one process computes it for all ranks.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import weights

if TYPE_CHECKING:
    from torch import Tensor, nn

FEATURES, RATE, STEPS = 5, 0.1, 3


class Case(TypedDict):
    """The number of samples of each rank; and the arguments of the norm."""

    seed: int
    sizes: list[int]
    eps: float
    momentum: float


class Trained(TypedDict):
    """A training: the rank's outputs in the first step, gradients of all steps, and running statistics in the end."""

    output: list[float]
    gradients: list[list[float]]
    mean: list[float]
    variance: list[float]


def network(seed: int, norm: nn.Module) -> nn.Sequential:
    """Return a network 4 -> 5, the norm, 5 -> 2 with seeded weights."""
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(4, FEATURES), norm, nn.Tanh(), nn.Linear(FEATURES, 2))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in (net[0], net[3]):
            for parameter in layer.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.4)
    return net


def batch(case: Case, step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a rank, whose data lie around a value of its own."""
    import torch

    generator = torch.Generator().manual_seed(case["seed"] + 1000 * step + rank)
    size = case["sizes"][rank]
    return torch.randn(size, 4, generator=generator) + 0.7 * rank, torch.randn(size, 2, generator=generator)


def loss_of(output: Tensor, target: Tensor, case: Case, world_size: int) -> Tensor:
    """Return a rank's part of the loss over all samples, so that its mean over ranks is that loss."""
    total = sum(case["sizes"][:world_size])
    return (output - target).square().sum() * world_size / total


def numbers(tensors: Iterable[Tensor | None]) -> list[float]:
    """Return tensors as one flat list; nothing for missing ones."""
    return weights.numbers(tensor for tensor in tensors if tensor is not None)


def gradients(net: nn.Sequential) -> list[float]:
    """Return the gradients of the network, the norm's by their names."""
    found = (getattr(net[layer], name).grad for layer in (0, 1, 3) for name in ("weight", "bias"))
    return numbers(found)


def alone(case: Case, world_size: int) -> tuple[list[Trained], list[float]]:
    """Train one process with torch's BatchNorm1d on the samples of all ranks.

    Returns:
        The correct result of each rank, and outputs in eval mode.
    """
    import torch
    from torch import nn

    norm = nn.BatchNorm1d(FEATURES, eps=case["eps"], momentum=case["momentum"])
    net = network(case["seed"], norm)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    outputs: list[list[float]] = []
    found = []
    for step in range(STEPS):
        batches = [batch(case, step, rank) for rank in range(world_size)]
        inputs, targets = map(torch.cat, zip(*batches, strict=True))
        optimizer.zero_grad()
        output = net(inputs)
        outputs = outputs or [numbers([part]) for part in output.split(case["sizes"])]
        (output - targets).square().mean(0).sum().backward()
        found.append(gradients(net))
        optimizer.step()
    mean, variance = numbers([norm.running_mean]), numbers([norm.running_var])
    net.eval()
    with torch.no_grad():
        evaluated = numbers([net(probe())])
    return [Trained(output=one, gradients=found, mean=mean, variance=variance) for one in outputs], evaluated


def probe() -> Tensor:
    """Return inputs for the evaluation."""
    import torch

    return torch.linspace(-1, 2, 12).view(3, 4)
