"""The objects of a kind that are alive on this rank. Used inside a rank."""

from __future__ import annotations

import gc
from typing import TypeVar

_Kind = TypeVar("_Kind")


def alive(kind: type[_Kind]) -> list[_Kind]:
    """List all that Python knows of this kind; an instance is not asked, whose isinstance() may run code of its own."""
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]
