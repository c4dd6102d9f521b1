"""What the tasks of this lesson share: models whose graph is not always the same, seeded data, weights as numbers.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Numbers that differ by less are equal: sums over ranks are rounded in another order.
TOLERANCE = 2e-5


def drawn(seed: int, *shape: int) -> Any:
    """Normal random numbers that only the seed decides."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fill(net: Any, seed: int) -> Any:
    """Give a module weights that only the seed decides, none of them zero."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.4)
    return net


def heads(seed: int, count: int) -> Any:
    """A body and some heads; called with an input and the numbers of the heads to use, it returns a list of outputs."""
    import torch

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Linear(4, 5)
            self.heads = torch.nn.ModuleList(torch.nn.Linear(5, 2) for _ in range(count))

        def forward(self, x: Any, use: Sequence[int]) -> list[Any]:
            x = self.body(x).tanh()
            return [self.heads[number](x) for number in use]

    return fill(Heads(), seed)


def numbers(tensors: Any) -> list[float]:
    """Tensors as one flat list."""
    return [value for tensor in tensors for value in tensor.detach().double().flatten().tolist()]


def gradients(net: Any) -> list[float]:
    """All gradients of a module as one flat list; zeros where there is none."""
    import torch

    return numbers(torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters())


def farthest(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference; infinite where the lengths differ or one has something else than a number."""
    if len(a) != len(b):
        return float("inf")
    gaps = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return max((gap if gap == gap else float("inf") for gap in gaps), default=0.0)


def close(a: Sequence[float], b: Sequence[float]) -> bool:
    """Equal up to rounding."""
    return farthest(a, b) < TOLERANCE


def mean(lists: Sequence[Sequence[float]]) -> list[float]:
    """The mean of equally long lists, number by number."""
    return [sum(values) / len(lists) for values in zip(*lists, strict=True)]


def first_line(error: BaseException) -> str:
    """The first sentence of an error."""
    return str(error).strip().partition(". ")[0].partition("\n")[0][:160]


def all_close(seen: Mapping[int, Any], key: str, right: Sequence[float]) -> bool:
    """Whether every rank observed these numbers under this key."""
    return all(close(one[key], right) for one in seen.values())
