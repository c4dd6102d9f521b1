"""Gradients that are clipped too early: with a GradScaler's scale still in them, or before DDP has averaged them.

Used inside a rank, within `watching`.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from realranks.outcome.probe_notes import ProbeNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line

if TYPE_CHECKING:
    from torch import Tensor
    from torch.amp import GradScaler
    from torch.optim import Optimizer

    from realranks.watch.probe import Model


#: Norms that are compared with their limit: on a GPU, each comparison waits for it.
_MAX_NORMS = 20


class Scaling:
    """The clippings of one rank."""

    def __init__(self, notes: ProbeNotes, models: Sequence[Model]) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        self._notes, self._models = notes, models
        self._norms = 0
        self._clipped = WeakIdKeyDictionary()  # the line, by parameter
        self._unscaled: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def wrap(self, stack: ExitStack, replace: Replace, noting: Scaling) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        import torch

        def clip(original: Callable[..., Any]) -> Callable[..., Any]:
            def clip_grad(parameters: Any, *arguments: Any, **options: Any) -> Any:
                listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
                noting.clipped(listed)
                norm = original(listed, *arguments, **options)
                noting.clipped_to(listed, norm, *arguments, **options)
                return norm

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

    def clipped_to(
        self,
        parameters: list[object],
        norm: Tensor | None,
        max_norm: float = math.inf,
        *_: object,
        **__: object,
    ) -> None:
        """Record gradients that were made shorter after a pass under no_sync(), which DDP does not average."""
        given = set(map(id, parameters))
        apart = [model for model in self._models if model.no_sync and given & set(map(id, model.managed()))]
        if norm is None or not apart or self._norms >= _MAX_NORMS:
            return
        self._norms += 1
        if norm > max_norm:
            for model in apart:
                model.clipped = learners_line(), model.gradients()

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
