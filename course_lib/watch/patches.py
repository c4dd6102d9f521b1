"""The functions of torch that are wrapped while a rank is watched; what is noted of their calls is `probe`'s business.

Used inside a rank; imports torch when it is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.watch.probe import Probe


def patch(probe: Probe, stack: contextlib.ExitStack) -> None:
    """Put wrappers around what the probe wants to hear of, until the stack is closed."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def constructor(original: Callable[..., Any]) -> Callable[..., Any]:
        def construct(self: Any, *arguments: Any, **options: Any) -> None:
            original(self, *arguments, **options)
            probe.built(self)

        return construct

    def forward(original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, *arguments: Any, **options: Any) -> Any:
            probe.forward(self, arguments)
            model = probe.model_of(self)
            try:
                if model is not None:
                    model.inside = True
                return original(self, *arguments, **options)
            except BaseException as error:
                probe.failed("forward", error)
                raise
            finally:
                if model is not None:
                    model.inside = False

        return forward

    def backward(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*arguments: Any, **options: Any) -> Any:
            models = probe.backward()
            try:
                original(*arguments, **options)
            except BaseException as error:
                probe.failed("backward", error)
                raise
            probe.reduced(models)

        return backward

    def destroy(original: Callable[..., Any]) -> Callable[..., Any]:
        def destroy_process_group(*arguments: Any, **options: Any) -> Any:
            with contextlib.suppress(Exception):
                probe.leaving()
            return original(*arguments, **options)

        return destroy_process_group

    _replace(stack, torch.distributed, "destroy_process_group", destroy)
    _replace(stack, DistributedDataParallel, "__init__", constructor)
    _replace(stack, DistributedDataParallel, "forward", forward)
    _replace(stack, torch.autograd, "backward", backward)
    handle = register_optimizer_step_pre_hook(lambda optimizer, *_: probe.step(optimizer))
    stack.callback(handle.remove)
    probe.loaders.wrap(stack, _replace)


def _replace(
    stack: contextlib.ExitStack,
    owner: Any,
    name: str,
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Put a wrapper in the place of a function, looking like it from outside, until the stack is closed."""
    import functools

    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))
    stack.callback(setattr, owner, name, original)
