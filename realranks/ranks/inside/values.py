"""Values of the learner's on their way from a rank to the kernel, and the stand-ins for those that cannot be sent.

A rank packs with cloudpickle; the kernel unpacks only when a value is asked for, because a tensor brings torch with it.
Tensors travel as CPU tensors: unpacked on their GPU, they would cost the kernel a CUDA context there, half a gigabyte
for good.
"""

from __future__ import annotations

import io
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard

from realranks.outcome.packed import NotSent, Packed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from torch import Tensor

#: Values up to this size come back with the cell; larger ones are fetched when asked for.
EAGER_BYTES = 4 << 20


class _TooLarge(Exception):
    pass


class _LimitedBuffer(io.BytesIO):
    def __init__(self, limit: int | None) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: ReadableBuffer) -> int:
        if self._limit is not None and self.tell() + memoryview(data).nbytes > self._limit:
            raise _TooLarge
        return super().write(data)


def pack(value: object, limit: int | None = EAGER_BYTES) -> Packed:
    """Serialise the value, or return no bytes and the reason why it was not sent."""
    if value is None:
        return b"", None
    import cloudpickle

    buffer = _LimitedBuffer(limit)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, part: object) -> object:
            # Asked before torch copies a big tensor into bytes, only to learn that they are too many.
            if limit is not None and hasattr(type(part), "untyped_storage") and _bytes_of(part) > limit:
                raise _TooLarge
            if _is_on_gpu(part):
                return _on_cpu(part)
            return super().reducer_override(part)

    try:
        Pickler(buffer).dump(value)
    except _TooLarge:
        reason = "large" if limit == EAGER_BYTES else "too large to send"
        return b"", NotSent(_short(value), reason)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return b"", NotSent(_short(value), f"{type(error).__name__}: {str(error)[:200]}")
    return buffer.getvalue(), None


def _bytes_of(part: object) -> int:
    try:
        # A small view of a large tensor travels with all of it.
        storage = getattr(part, "untyped_storage", None)
        return int(storage().nbytes()) if storage is not None else 0
    except Exception:
        return 0


def _is_on_gpu(part: object) -> TypeGuard[Tensor]:
    try:
        return hasattr(type(part), "untyped_storage") and bool(getattr(part, "is_cuda", False))
    except Exception:
        return False


def _on_cpu(part: Tensor) -> tuple[Callable[..., object], tuple[object, ...]]:
    """Tell pickle how to rebuild this tensor or parameter."""
    import torch

    copy = part.detach().cpu()
    if isinstance(part, torch.nn.Parameter):
        return torch.nn.Parameter, (copy, part.requires_grad)
    return torch.Tensor.requires_grad_, (copy, part.requires_grad)


def _short(value: object) -> str:
    try:
        return reprlib.repr(value)[:200]
    except BaseException:
        return f"a {type(value).__name__}"
