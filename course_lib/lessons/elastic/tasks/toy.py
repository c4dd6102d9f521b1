"""The training of the answers: a small network, and batches that the step decides. Imports torch where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.tasks.weights import drawn, network

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

#: Divides by two workers, and not by three.
BATCH = 8


def optimizer_of(net: nn.Module) -> Optimizer:
    """Return a new optimizer, with momentum."""
    import torch

    return torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)


def make(seed: int) -> tuple[nn.Sequential, Optimizer]:
    """Return a network with seeded weights, and an optimizer with momentum."""
    net = network(seed, 4, 5, 1)
    return net, optimizer_of(net)


def batch(seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a step."""
    inputs = drawn(1000 * seed + step, BATCH, 4)
    return inputs, inputs.square().sum(1, keepdim=True)


def whole_loss(net: nn.Module | None, seed: int, step: int) -> float:
    """Return the loss of a network on the whole batch of a step."""
    import torch

    if net is None:
        return float("nan")
    inputs, targets = batch(seed, step)
    with torch.no_grad():
        return float((net(inputs) - targets).square().mean())


def share_loss(net: nn.Module, seed: int, step: int, rank: int, world: int) -> Tensor:
    """Return a rank's part of the loss of a step: its mean over ranks is the loss on the whole batch."""
    inputs, targets = (part[rank::world] for part in batch(seed, step))
    loss: Tensor = (net(inputs) - targets).square().sum() / BATCH * world
    return loss


def train_step(
    net: nn.Module, optimizer: Optimizer, seed: int, step: int, shares: Sequence[slice] = (slice(None),)
) -> None:
    """Make a step of one process.

    Args:
        shares: of the batch; the loss is the mean of theirs.
    """
    inputs, targets = batch(seed, step)
    optimizer.zero_grad()
    losses = [(net(inputs[mine]) - targets[mine]).square().mean() for mine in shares]
    (sum(losses[1:], losses[0]) / len(losses)).backward()
    optimizer.step()


def curve(
    seed: int,
    steps: int,
    forgets_at: Sequence[int] = (),
    shares: Sequence[slice] = (slice(None),),
    since: int = 0,
) -> list[float]:
    """Return the losses of steps 0 to `steps` in one process.

    Args:
        forgets_at: where its optimizer is a new one. shares: see `train_step`. since: the first step with these.
    """
    net, optimizer = make(seed)
    losses = []
    for step in range(steps):
        if step in forgets_at:
            optimizer.state.clear()
        losses.append(whole_loss(net, seed, step))
        train_step(net, optimizer, seed, step, *[shares] * (step >= since))
    return [*losses, whole_loss(net, seed, steps)]
