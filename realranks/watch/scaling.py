"""Gradients that are clipped while a GradScaler's scale is still in them. Used inside a rank, within `watching`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from realranks.outcome.probe_notes import ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.optim import Optimizer


class Scaling:
    """The clippings of one rank."""

    def __init__(self, notes: ProbeNotes) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        self._notes = notes
        self._clipped = WeakIdKeyDictionary()  # the line, by parameter
        self._unscaled: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def wrap(self, stack: ExitStack, replace: Replace, noting: Scaling) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        import torch

        def clip(original: Callable[..., Any]) -> Callable[..., Any]:
            def clip_grad(parameters: Any, *arguments: Any, **options: Any) -> Any:
                listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
                noting.clipped(listed)
                return original(listed, *arguments, **options)

            return clip_grad

        def unscale(original: Callable[..., Any]) -> Callable[..., Any]:
            def unscale_(scaler: GradScaler, optimizer: Optimizer) -> Any:
                noting.unscaled(optimizer)
                return original(scaler, optimizer)

            return unscale_

        def step(original: Callable[..., Any]) -> Callable[..., Any]:
            def step(scaler: GradScaler, optimizer: Optimizer, *arguments: Any, **options: Any) -> Any:
                noting.stepping(scaler, optimizer)
                try:
                    return original(scaler, optimizer, *arguments, **options)
                finally:
                    noting.stepped(optimizer)

            return step

        for name in ("clip_grad_norm_", "clip_grad_value_"):
            replace(stack, torch.nn.utils, name, clip)
        replace(stack, torch.amp.GradScaler, "unscale_", unscale)
        replace(stack, torch.amp.GradScaler, "step", step)

    def clipped(self, parameters: list[object]) -> None:
        """Record parameters of which the gradients are about to be clipped."""
        self._clipped.update(dict.fromkeys(parameters, learners_line()))

    def unscaled(self, optimizer: Optimizer) -> None:
        """Record that a scaler takes its scale out of an optimizer's gradients."""
        if any(p in self._clipped for group in optimizer.param_groups for p in group["params"]):
            return  # too late
        self._unscaled.add(optimizer)

    def stepping(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Note an optimizer whose gradients have been clipped with the scale in them."""
        lines = [self._clipped.get(p, "") for group in optimizer.param_groups for p in group["params"]]
        if (
            optimizer not in self._unscaled
            and any(lines)
            and scaler.is_enabled()
            and scaler.get_scale() != 1.0
        ):
            self._notes.clipped_scaled_at = next(filter(None, lines))

    def stepped(self, optimizer: Optimizer) -> None:
        """Forget what was clipped and unscaled for this step."""
        self._unscaled.discard(optimizer)
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            self._clipped.pop(parameter, None)
