"""The optimizers of a rank: how often each has stepped, and whether other code has changed weights since.

A script that averages weights now and then (local SGD) does so between two steps: those are worth a comparison, too.
Used inside a rank, within `watching`.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from realranks.watch.weights import Sample

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

#: Moments besides the planned ones at which an optimizer's weights are compared.
_MAX_EXTRA = 40


@dataclass
class Stepped:
    """One optimizer, or several for the same parameters (a new one in every round), counted as they first step."""

    number: int
    optimizer: weakref.ref[Optimizer]
    first: weakref.ref[Parameter] | None  # the first of its parameters
    steps: int = 0
    tracked: Sample | None = None  # of one of its parameters
    values: tuple[float, ...] | None = None  # after the last step
    extra: int = 0
    _models: tuple[int, frozenset[int]] = (-1, frozenset())

    def holds(self, parameter: Parameter) -> bool:
        """Check for the first parameter of these optimizers."""
        return self.first is not None and self.first() is parameter

    def parameters(self) -> set[int]:
        """Return the ids of the parameters that it steps."""
        optimizer = self.optimizer()
        return {id(p) for group in optimizer.param_groups for p in group["params"]} if optimizer else set()

    def models(self, wrappers: Sequence[DistributedDataParallel | None]) -> frozenset[int]:
        """Return the numbers of the DDP models whose parameters it steps; cached until there are more models."""
        optimizer = self.optimizer()
        if self._models[0] != len(wrappers) and optimizer is not None:
            mine = self.parameters()
            held = frozenset(
                number
                for number, wrapper in enumerate(wrappers)
                if wrapper is not None and any(id(p) in mine for p in wrapper.module.parameters())
            )
            self._models = (len(wrappers), held)
        return self._models[1]

    def made_before(self) -> int:
        """Return how many steps its state has counted; -1 for a state without a count."""
        optimizer = self.optimizer()
        states = (
            [state for state in optimizer.state.values() if isinstance(state, dict) and state]
            if optimizer
            else []
        )
        return max((int(state.get("step", -1)) for state in states), default=0)

    def touched(self) -> bool:
        """Check, once per change, that a parameter no longer has the values of the last step."""
        if self.tracked is None or self.values is None or self.extra >= _MAX_EXTRA:
            return False
        if self.tracked.values() in (None, self.values):
            return False
        self.values = None
        self.extra += 1
        return True

    def remember(self) -> None:
        """Remember the values that a step has given to the tracked parameter."""
        optimizer = self.optimizer()
        if self.tracked is None and optimizer is not None:
            moving = (p for g in optimizer.param_groups for p in g["params"] if p.grad is not None)
            first = next((p for p in moving if p.numel() and p.device.type == "cpu"), None)
            self.tracked = Sample(first) if first is not None else None
        self.values = self.tracked.values() if self.tracked is not None else None


class Optimizers:
    """Those that have stepped on this rank."""

    def __init__(self) -> None:
        self.found: list[Stepped] = []

    def of(self, optimizer: Optimizer) -> Stepped:
        """Return the record of this optimizer, creating it if it is new."""
        known = next((each for each in self.found if each.optimizer() is optimizer), None)
        if known is None:
            first = next((p for group in optimizer.param_groups for p in group["params"]), None)
            known = next((each for each in self.found if first is not None and each.holds(first)), None)
            if known is None:
                known = Stepped(
                    len(self.found), weakref.ref(optimizer), weakref.ref(first) if first is not None else None
                )
                self.found.append(known)
            known.optimizer = weakref.ref(optimizer)
        return known

    def touched(self) -> list[Stepped]:
        """List the optimizers whose weights other code has changed since their last step."""
        return [each for each in self.found if each.touched()]


def is_inner_step() -> bool:
    """Check for an optimizer that steps inside another's step, such as ZeroRedundancyOptimizer's own."""
    return steps_around() > 1


def steps_around() -> int:
    """Count the optimizer steps that this thread is inside of."""
    frame, depth = sys._getframe(1), 0
    while frame is not None:
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename.endswith("optim/optimizer.py"):
            depth += 1
        frame = frame.f_back  # type: ignore[assignment]
    return depth
