"""BatchNorm as one process computes it for all ranks, right and in the ways that are commonly taken for it.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import weights

if TYPE_CHECKING:
    from torch import Tensor, nn

    Moments = tuple[Tensor, Tensor]
    #: A way: given what each rank has put in, the mean and the variance that each rank normalises with.
    Way = Callable[[Sequence[Tensor]], Sequence[Moments]]

FEATURES, RATE, STEPS = 5, 0.1, 3


class Case(TypedDict):
    """The number of samples of each rank; and the arguments of the norm."""

    seed: int
    sizes: list[int]
    eps: float
    momentum: float


class Step(TypedDict):
    """A step: the outputs of each rank, and the gradients averaged over ranks."""

    outputs: list[list[float]]
    gradients: list[float]


class Alone(TypedDict):
    """The result of one process: gradients of all steps, running statistics, and outputs in eval mode.

    Attributes:
        biased: the running variance without the correction. local_mean: the running mean of rank 0's samples.
    """

    gradients: list[list[float]]
    mean: list[float]
    variance: list[float]
    biased: list[float]
    local_mean: list[float]
    evaluated: list[float]


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


# -- ways to take mean and variance -------------------------------------------------------------------------------


def _moments(parts: Sequence[Tensor]) -> Moments:
    import torch

    whole = torch.cat(list(parts))
    return whole.mean(0), whole.var(0, correction=0)


def right(parts: Sequence[Tensor]) -> Sequence[Moments]:
    """Return the moments of all samples."""
    return [_moments(parts)] * len(parts)


def local(parts: Sequence[Tensor]) -> Sequence[Moments]:
    """Return the moments of a rank's own samples."""
    return [_moments([part]) for part in parts]


def detached(parts: Sequence[Tensor]) -> Sequence[Moments]:
    """Return the moments of all samples, unknown to autograd."""
    return right([part.detach() for part in parts])


def own_gradient(parts: Sequence[Tensor]) -> Sequence[Moments]:
    """Return the moments of all samples; their gradient goes back into a rank's own samples only."""
    return [
        _moments([p if i == rank else p.detach() for i, p in enumerate(parts)]) for rank in range(len(parts))
    ]


def mean_of_means(parts: Sequence[Tensor]) -> Sequence[Moments]:
    """Average the moments over ranks, as if all had the same number of samples."""
    mean = weights.added(part.mean(0) for part in parts) / len(parts)
    square = weights.added(part.square().mean(0) for part in parts) / len(parts)
    return [(mean, square - mean.square())] * len(parts)


def mean_of_variances(parts: Sequence[Tensor]) -> Sequence[Moments]:
    """Return the mean of all samples and the average of the ranks' variances, each around its own mean."""
    total = sum(len(part) for part in parts)
    variance = weights.added(part.var(0, correction=0) * len(part) for part in parts) / total
    return [(_moments(parts)[0], variance)] * len(parts)


def plain_mean_of_variances(parts: Sequence[Tensor]) -> Sequence[Moments]:
    """Average both means and variances over ranks."""
    mean = weights.added(part.mean(0) for part in parts) / len(parts)
    variance = weights.added(part.var(0, correction=0) for part in parts) / len(parts)
    return [(mean, variance)] * len(parts)


WAYS: dict[str, Way] = {
    "local_statistics": local,
    "detached": detached,
    "own_gradient": own_gradient,
    "mean_of_means": mean_of_means,
    "mean_of_variances": mean_of_variances,
    "mean_of_variances/plain": plain_mean_of_variances,
    "detached + mean_of_means": lambda parts: mean_of_means([part.detach() for part in parts]),
    "detached + mean_of_variances": lambda parts: mean_of_variances([part.detach() for part in parts]),
    "detached + mean_of_variances/plain": lambda parts: plain_mean_of_variances(
        [part.detach() for part in parts]
    ),
}


def first_step(case: Case, world_size: int, way: Way, eps: float) -> Step:
    """Return each rank's outputs and the averaged gradients of the first step, with these statistics."""
    from torch import nn

    norm = nn.BatchNorm1d(FEATURES, eps=eps)
    net = network(case["seed"], norm)
    batches = [batch(case, 0, rank) for rank in range(world_size)]
    hidden = [net[0](inputs) for inputs, _ in batches]
    outputs = []
    for part, (mean, variance) in zip(hidden, way(hidden), strict=True):
        normal = (part - mean) / (variance + eps).sqrt()
        outputs.append(net[3](net[2](normal * norm.weight + norm.bias)))
    losses = [
        loss_of(out, target, case, world_size) for out, (_, target) in zip(outputs, batches, strict=True)
    ]
    (weights.added(losses) / world_size).backward()
    return {"outputs": [numbers([out]) for out in outputs], "gradients": gradients(net)}


def gradients(net: nn.Sequential) -> list[float]:
    """Return the gradients of the network, the norm's by their names."""
    found = (getattr(net[layer], name).grad for layer in (0, 1, 3) for name in ("weight", "bias"))
    return numbers(found)


def alone(case: Case, world_size: int) -> Alone:
    """Train one process with torch's BatchNorm1d on the samples of all ranks: the correct result."""
    import torch
    from torch import nn

    norm = nn.BatchNorm1d(FEATURES, eps=case["eps"], momentum=case["momentum"])
    net = network(case["seed"], norm)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    unbiased, biased = [], torch.ones(FEATURES)
    local_mean = torch.zeros(FEATURES)
    for step in range(STEPS):
        inputs, targets = (
            torch.cat(x) for x in zip(*(batch(case, step, r) for r in range(world_size)), strict=True)
        )
        optimizer.zero_grad()
        with torch.no_grad():
            hidden = net[0](inputs)
            biased.lerp_(hidden.var(0, correction=0), case["momentum"])
            local_mean.lerp_(hidden[: case["sizes"][0]].mean(0), case["momentum"])
        (net(inputs) - targets).square().mean(0).sum().backward()
        unbiased.append(gradients(net))
        optimizer.step()
    net.eval()
    with torch.no_grad():
        evaluated = numbers([net(probe())])
    return {
        "gradients": unbiased,
        "mean": numbers([norm.running_mean]),
        "variance": numbers([norm.running_var]),
        "biased": numbers([biased]),
        "local_mean": numbers([local_mean]),
        "evaluated": evaluated,
    }


def probe() -> Tensor:
    """Return inputs for the evaluation."""
    import torch

    return torch.linspace(-1, 2, 12).view(3, 4)
