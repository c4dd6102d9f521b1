"""What the tasks of this lesson share: wrapped models that count how they are used, seeded data, weights as numbers.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

#: Weights that differ by less are equal: sums over ranks are rounded in another order.
TOLERANCE = 2e-5


def network(seed: int, *sizes: int, norm: bool = False) -> Any:
    """A small network with a Tanh between its layers, and a BatchNorm after the first where asked for."""
    import torch

    layers: list[Any] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.Tanh()]
    if norm:
        layers.insert(1, torch.nn.BatchNorm1d(sizes[1]))
    net = torch.nn.Sequential(*layers[:-1])
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.4)
    return net


def drawn(seed: int, *shape: int) -> Any:
    """Normal random numbers that only the seed decides."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def numbers(tensors: Any) -> list[float]:
    """Tensors, such as a model's parameters, as one flat list."""
    return [value for tensor in tensors for value in tensor.detach().double().flatten().tolist()]


def farthest(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference between two lists of equal length; infinite where one has something else than a number."""
    gaps = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return max((gap if gap == gap else float("inf") for gap in gaps), default=0.0)


def close(a: Sequence[float], b: Sequence[float]) -> bool:
    """Equal up to rounding."""
    return farthest(a, b) < TOLERANCE


class Watched:
    """A module in DDP that counts: calls of the wrapper, calls of the module, backwards that reach it, averages."""

    def __init__(self, module: Any) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
        from torch.nn.parallel import DistributedDataParallel

        self.module = module
        self.counts = {"wrapper": 0, "module": 0, "backwards": 0, "averages": 0}
        self.ddp = DistributedDataParallel(module)
        self.ddp.register_forward_pre_hook(lambda *_: self._count("wrapper"))
        module.register_forward_pre_hook(lambda *_: self._count("module"))
        next(module.parameters()).register_post_accumulate_grad_hook(lambda _: self._count("backwards"))

        def counted(state: object, bucket: Any) -> Any:
            self._count("averages")
            return allreduce_hook(None, bucket)  # type: ignore[arg-type]

        # DDP looks at the annotations of a hook, and here they are only text.
        counted.__annotations__ = {}
        self.ddp.register_comm_hook(None, counted)

    def _count(self, what: str) -> None:
        self.counts[what] += 1

    def seen(self) -> dict[str, Any]:
        """Weights and counts, as plain data."""
        return {"weights": numbers(self.module.parameters()), **self.counts}


def around_the_wrapper(seen: Mapping[str, Any]) -> bool:
    """Whether the module was called without its wrapper."""
    return bool(seen["module"] > seen["wrapper"])


def spent(seen: Mapping[str, Any]) -> bool:
    """Whether there were backwards that no average followed."""
    return bool(seen["backwards"] > seen["averages"])
