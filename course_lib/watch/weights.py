"""Small digests of weights and gradients, taken often while a script runs: is it still the same on every rank?

A digest is a checksum and a few values, so that the doctor can say by how much ranks differ at least. Used inside a
rank; imports torch only inside functions.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.watch.names import names_in_the_code

_SAMPLES = 8
_MOST_TENSORS = 400


@dataclass(frozen=True)
class CheckPlan:
    """At which steps weights are compared: often at first, then every `every` steps; the same on every rank."""

    every: int = 50

    def due(self, step: int) -> bool:
        """True when step number `step` (from 0) is one to compare."""
        return step <= 8 or step in (16, 32) or step % max(1, self.every) == 0


def digest(tensor: Any) -> list[Any]:
    """`[checksum, some values]` of a tensor; `[None, []]` where there is no data."""
    import torch

    if tensor is None or tensor.is_meta:
        return [None, []]
    with torch.no_grad():
        flat = tensor.detach()
        if flat.layout is not torch.strided:
            flat = flat.coalesce().values()
        flat = flat.cpu().contiguous().reshape(-1)
        if not flat.numel():
            return [0, []]
        crc = zlib.crc32(memoryview(flat.view(torch.uint8).numpy()))
        stride = max(1, flat.numel() // _SAMPLES)
        samples = [float(value) for value in flat[::stride][:_SAMPLES].tolist()]
    return [crc, [value if math.isfinite(value) else None for value in samples]]


def weight_check(wrapper: Any, number: int, step: int) -> dict[str, Any]:
    """The parameters and floating-point buffers of a DDP model before step number `step` (-1: at the end)."""
    module = wrapper.module
    return {
        "model": number,
        "step": step,
        "parameters": _digests(module.named_parameters()),
        "buffers": _digests((name, b) for name, b in module.named_buffers() if b.is_floating_point()),
        "managed": wrapper.forward_sync_buffers,
    }


def gradient_check(
    optimizer: Any, wrappers: Iterable[Any], step: int, reduced: Mapping[str, list[Any]]
) -> dict[str, Any]:
    """What an optimizer is about to use, and its settings.

    `gradients` are those of the parameters that belong to a DDP model, and `reduced` what DDP had left of them (as far
    as it is known); `outside` are the other parameters themselves, as name, shape and digest.
    """
    names = {
        id(parameter): f"{number}:{name}"
        for number, wrapper in enumerate(wrappers)
        if wrapper is not None
        for name, parameter in wrapper.module.named_parameters()
    }
    found: dict[str, list[Any]] = {}
    others = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) in names:
                found[names[id(parameter)]] = digest(parameter.grad)
            else:
                others.append(parameter)
    called = names_in_the_code() if others else {}
    settings = [
        {key: value for key, value in group.items() if isinstance(value, int | float)}
        for group in optimizer.param_groups
    ]
    return {
        "step": step,
        "gradients": found,
        "reduced": {name: reduced[name] for name in found if name in reduced},
        "outside": [[called.get(id(p), ""), list(p.shape), digest(p)] for p in others[:_MOST_TENSORS]],
        "settings": settings,
    }


def reduced_gradients(wrapper: Any, number: int) -> dict[str, list[Any]]:
    """The gradients of a DDP model as a backward pass has left them."""
    return {
        f"{number}:{name}": digest(parameter.grad)
        for name, parameter in list(wrapper.module.named_parameters())[:_MOST_TENSORS]
    }


def _digests(tensors: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    return {name: digest(tensor) for name, tensor in list(tensors)[:_MOST_TENSORS]}


def input_digest(arguments: Iterable[Any]) -> int:
    """A checksum of the tensors a model is called with."""
    import torch

    crc = 0
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and not argument.is_meta and argument.layout is torch.strided:
            crc = zlib.crc32(str(digest(argument)[0]).encode(), crc)
    return crc
