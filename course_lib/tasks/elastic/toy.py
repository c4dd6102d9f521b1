"""What answers train: a small network, and batches that the step decides. Torch is imported where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.tasks.weights import drawn, network

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

#: Divides by every number of workers.
BATCH = 12


def make(seed: int) -> tuple[nn.Module, Optimizer]:
    """A network with weights that the seed decides, and an optimizer with a memory."""
    import torch

    net = network(seed, 4, 5, 1)
    return net, torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)


def batch(seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of a step."""
    inputs = drawn(1000 * seed + step, BATCH, 4)
    return inputs, inputs.square().sum(1, keepdim=True)


def whole_loss(net: nn.Module | None, seed: int, step: int) -> float:
    """The loss of a network on the whole batch of a step."""
    import torch

    if net is None:
        return float("nan")
    inputs, targets = batch(seed, step)
    with torch.no_grad():
        return float((net(inputs) - targets).square().mean())


def curve(seed: int, steps: int, forgets_at: Sequence[int] = ()) -> list[float]:
    """The losses of steps 0 to `steps` in one process, whose optimizer is new at some of them."""
    net, optimizer = make(seed)
    losses = []
    for step in range(steps):
        if step in forgets_at:
            optimizer.state.clear()
        losses.append(whole_loss(net, seed, step))
        inputs, targets = batch(seed, step)
        optimizer.zero_grad()
        (net(inputs) - targets).square().mean().backward()
        optimizer.step()
    return [*losses, whole_loss(net, seed, steps)]
