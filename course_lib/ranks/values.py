"""How a value of the learner's travels from a rank to the kernel, and what stands for it when it cannot.

A rank packs with cloudpickle; the kernel unpacks only when somebody asks, because a tensor brings torch with it.
"""

from __future__ import annotations

import io
import reprlib
from dataclasses import dataclass
from typing import Any

#: Values up to this size come back with the cell; larger ones are fetched when asked for.
EAGER_BYTES = 4 << 20


#: A packed value, or no bytes and what stands for it (`{"text": ..., "reason": ...}`).
Packed = tuple[bytes, dict[str, str] | None]


@dataclass(frozen=True)
class NotSent:
    """Stands for a value that stayed on its rank: what it looked like there and why it could not travel."""

    text: str
    reason: str

    def __repr__(self) -> str:
        return f"<not sent to the kernel: {self.text} ({self.reason})>"


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


def unpack(blob: bytes, not_sent: dict[str, str] | None) -> Any:
    """The value again; `NotSent` when it stayed on the rank or cannot be rebuilt here."""
    if not_sent is not None:
        return NotSent(not_sent["text"], not_sent["reason"])
    if not blob:
        return None
    import pickle

    try:
        return pickle.loads(blob)
    except Exception as error:
        return NotSent("a value", f"it cannot be rebuilt in the kernel: {type(error).__name__}: {error}")


def _short(value: Any) -> str:
    try:
        return reprlib.repr(value)[:200]
    except BaseException:
        return f"a {type(value).__name__}"
