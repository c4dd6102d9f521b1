"""Shared parts of this lesson's tasks: wrapped models that count how they are used.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from course_lib.tasks.weights import numbers

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed import GradBucket
    from torch.futures import Future


class Counts(TypedDict):
    """Counts of a wrapped model's use: calls of the wrapper and of the module, backwards, and averages."""

    wrapper: int
    module: int
    backwards: int
    averages: int


class Usage(Counts):
    """Counts, and the final weights."""

    weights: list[float]


class Watched:
    """A module in DDP that counts: calls of the wrapper, calls of the module, backwards that reach it, averages."""

    def __init__(self, module: nn.Sequential) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
        from torch.nn.parallel import DistributedDataParallel

        self.module = module
        self.counts: Counts = {"wrapper": 0, "module": 0, "backwards": 0, "averages": 0}
        self.ddp = DistributedDataParallel(module)
        self.ddp.register_forward_pre_hook(lambda *_: self._count("wrapper"))
        module.register_forward_pre_hook(lambda *_: self._count("module"))
        next(module.parameters()).register_post_accumulate_grad_hook(lambda _: self._count("backwards"))

        def counted(state: object, bucket: GradBucket) -> Future[Tensor]:
            self._count("averages")
            return allreduce_hook(None, bucket)  # type: ignore[arg-type]

        # DDP looks at the annotations of a hook, and here they are only text.
        counted.__annotations__ = {}
        self.ddp.register_comm_hook(None, counted)

    def _count(self, what: Literal["wrapper", "module", "backwards", "averages"]) -> None:
        self.counts[what] += 1

    def seen(self) -> Usage:
        """Return weights and counts, as plain data."""
        return {"weights": numbers(self.module.parameters()), **self.counts}


def around_the_wrapper(seen: Counts) -> bool:
    """Return whether the module was called without its wrapper."""
    return seen["module"] > seen["wrapper"]


def not_averaged(seen: Counts) -> bool:
    """Return whether some backward was not followed by an average."""
    return seen["backwards"] > seen["averages"]
