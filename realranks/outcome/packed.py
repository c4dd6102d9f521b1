"""A value of the learner's as it came from a rank: bytes until it is asked for, or what stands for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NotSent:
    """Stands for a value that stayed on its rank: what it looked like there and why it could not travel."""

    text: str
    reason: str

    def __repr__(self) -> str:
        return f"<not sent to the kernel: {self.text} ({self.reason})>"


#: A packed value, or no bytes and what stands for it.
Packed = tuple[bytes, NotSent | None]


def unpack(blob: bytes, not_sent: NotSent | None) -> Any:
    """Rebuild the value; return `NotSent` if it stayed on the rank or cannot be rebuilt here."""
    if not_sent is not None:
        return not_sent
    if not blob:
        return None
    import pickle

    try:
        return pickle.loads(blob)
    except Exception as error:
        return NotSent("a value", f"it cannot be rebuilt in the kernel: {type(error).__name__}: {error}")
