"""Shared parts of this lesson's tasks: models whose graph is not always the same.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.tasks.weights import fill, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn


def heads(seed: int, count: int) -> nn.Module:
    """Return a body with heads; called with an input and numbers of heads, it returns a list of outputs."""
    import torch

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Linear(4, 5)
            self.heads = torch.nn.ModuleList(torch.nn.Linear(5, 2) for _ in range(count))

        def forward(self, x: Tensor, use: Sequence[int]) -> list[Tensor]:
            x = self.body(x).tanh()
            return [self.heads[number](x) for number in use]

    return fill(Heads(), seed)


def gradients(net: nn.Module) -> list[float]:
    """Return all gradients of a module as one flat list; zeros where there is none."""
    import torch

    return numbers(torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters())


def mean(lists: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of equally long lists, element by element."""
    return [sum(values) / len(lists) for values in zip(*lists, strict=True)]


def first_line(error: BaseException) -> str:
    """Return the first sentence of an error."""
    return str(error).strip().partition(". ")[0].partition("\n")[0][:160]
