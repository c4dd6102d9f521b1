"""How a value of the learner's travels from a rank to the kernel, and what stands for it when it cannot.

A rank packs with cloudpickle; the kernel unpacks only when somebody asks, because a tensor brings torch with it.
Tensors travel as CPU tensors: unpacked on their GPU, they would cost the kernel a CUDA context there, half a gigabyte
for good.
"""

from __future__ import annotations

import io
import reprlib
from typing import Any

from course_lib.outcome.packed import Packed

#: Values up to this size come back with the cell; larger ones are fetched when asked for.
EAGER_BYTES = 4 << 20


class _TooLarge(Exception):
    pass


class _LimitedBuffer(io.BytesIO):
    def __init__(self, limit: int | None) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: Any) -> int:
        if self._limit is not None and self.tell() + len(data) > self._limit:
            raise _TooLarge
        return super().write(data)


def pack(value: Any, limit: int | None = EAGER_BYTES) -> Packed:
    """The value as bytes, and None; or no bytes, and why."""
    if value is None:
        return b"", None
    import cloudpickle

    buffer = _LimitedBuffer(limit)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, part: Any) -> Any:
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
        return b"", {"text": _short(value), "reason": reason}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return b"", {"text": _short(value), "reason": f"{type(error).__name__}: {str(error)[:200]}"}
    return buffer.getvalue(), None


def _bytes_of(part: Any) -> int:
    try:
        # A small view of a large tensor travels with all of it.
        return int(part.untyped_storage().nbytes())
    except Exception:
        return 0


def _is_on_gpu(part: Any) -> bool:
    try:
        return hasattr(type(part), "untyped_storage") and bool(part.is_cuda)
    except Exception:
        return False


def _on_cpu(part: Any) -> tuple[Any, tuple[Any, ...]]:
    """How pickle is to make this tensor or parameter again."""
    import torch

    copy = part.detach().cpu()
    if isinstance(part, torch.nn.Parameter):
        return torch.nn.Parameter, (copy, part.requires_grad)
    return torch.Tensor.requires_grad_, (copy, part.requires_grad)


def _short(value: Any) -> str:
    try:
        return reprlib.repr(value)[:200]
    except BaseException:
        return f"a {type(value).__name__}"
