"""Lesson 08: a body and two heads, and training steps that do not use all of it. Imported by ranks; needs torch.

Every parameter is one number, and every weight is 1. Rank 0's sample is 1 and rank 1's is 3, so a gradient of 2 is the
mean over the ranks, and 1 or 3 is what a rank computed alone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.lessons.unused.lab import GRAPHS, HANGS, WAYS, Gradients
from course_lib.lessons.wrappers.places import grads, mine


class TwoHeads(nn.Module):
    """A body and two heads, one weight each."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.left, self.right = (nn.Linear(1, 1, bias=False) for _ in range(3))
        for p in self.parameters():
            nn.init.ones_(p)

    def forward(self, x: Tensor, heads: str = "both") -> Any:
        """Return the sum of the heads that are used: `left`, `right` or `both`."""
        x = self.body(x)
        outputs = {"left": self.left, "right": self.right}
        return sum(head(x) for name, head in outputs.items() if heads in (name, "both"))


def touched(net: nn.Module) -> Tensor:
    """Return a zero that depends on every parameter."""
    return 0 * torch.stack([p.sum() for p in net.parameters()]).sum()


@dataclass
class Output:
    """An output as models of today return it."""

    y: Tensor
    other: Tensor | None = None


#: What the forward returns, made of the output that goes into the loss and of one that does not.
RETURNS: dict[str, Callable[..., Any]] = {
    "tensor": lambda y, other: y,
    "tuple": lambda y, other: (y, other),
    "dataclass": lambda y, other: Output(y),
    "dataclass of two": Output,
    "object": lambda y, other: SimpleNamespace(y=y),
}


class Returning(TwoHeads):
    """Returns its output as a key of `RETURNS` says; with it goes the right head's, which is not in the loss."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor, heads: str = "both") -> Any:
        """Return an output that holds one of `TwoHeads`."""
        other = self.right(self.body(x)) if self.kind.startswith(("tuple", "dataclass of")) else None
        return RETURNS[self.kind](super().forward(x, heads), other)


def _loss(output: Any) -> Tensor:
    first: Tensor = output[0] if isinstance(output, tuple) else getattr(output, "y", output)
    return first.sum()


def take_steps(way: str, steps: Sequence[str], kind: str = "tensor") -> Iterator[Gradients | str]:
    """Yield what each step leaves in `.grad` of a model made in one of `WAYS`; an error's words come last.

    Args:
        steps: which heads this rank uses, step by step. kind: a key of `RETURNS`.
    """
    warnings.simplefilter("ignore", UserWarning)
    ddp = DistributedDataParallel(Returning(kind), **WAYS[way])
    for heads in steps:
        ddp.zero_grad()
        try:
            loss = _loss(ddp(mine(), heads))
            (loss + touched(ddp) if way == "touch" else loss).backward()
        except RuntimeError as error:
            yield str(error).partition(". ")[0].partition(", e.g.")[0]
            return
        yield grads(ddp)


def say_steps(way: str, steps: Sequence[Sequence[str]]) -> None:
    """Print each of this rank's steps when it is done, so that they are known when the next one hangs."""
    for found in take_steps(way, steps[dist.get_rank()]):
        print(json.dumps(found), flush=True)


def measure_graphs() -> dict[tuple[str, str], list[Gradients | str]]:
    """Measure every graph in every way, except those that hang."""
    rank = dist.get_rank()
    return {
        (name, way): [*take_steps(way, graph.steps[rank], graph.kind)]
        for name, graph in GRAPHS.items()
        for way in WAYS
        if (name, way) != HANGS
    }
