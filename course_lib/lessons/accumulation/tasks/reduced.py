"""The number of times that a model's gradients were sent, by DDP or by hand: from the bytes in collectives."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from realranks.ranks.inside.flight_recorder import recorded_collectives

if TYPE_CHECKING:
    from torch import Tensor


#: As the flight recorder calls types; all others have 4 bytes.
_BYTES = {"Double": 8, "Long": 8, "Half": 2, "BFloat16": 2, "Byte": 1, "Char": 1, "Bool": 1}


def times_reduced(parameters: Iterable[Tensor], since_ns: int) -> float:
    """Return how often these parameters were reduced: bytes of gradients sent since then, per byte of them.

    One all-reduce of all gradients is 1; a few numbers beside them add a small fraction.
    """
    whole = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    sent = sum(
        math.prod(size) * _BYTES.get(str(kind), 4)
        for record in recorded_collectives(since_ns)
        for size, kind in zip(record["sizes"], record["dtypes"], strict=False)
    )
    return float(sent / whole)
