"""A tally sheet of what DDP remembers between calls.

The model has one weight; orders and inputs are those of `lab.reducer`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.lab.reducer import BACKWARDS, FORWARDS, SHARES

LONGEST = 6


@dataclass(frozen=True)
class Sheet:
    """The state of one rank between two calls.

    Attributes:
        forwards: how many it has made.
        armed: whether the next backward averages.
        losses: the gradients of the losses that wait for a backward, the oldest first.
        grad: what `.grad` holds.
        sends: whether the last call was a backward that takes part in an average.
    """

    forwards: int = 0
    armed: bool = False
    losses: tuple[float, ...] = ()
    grad: float = 0.0
    sends: bool = False


def after(sheet: Sheet, call: str, share: float) -> Sheet:
    """Return the sheet after one more call, before an average has come back.

    Args:
        call: a letter of `reducer.CALLS`. share: this rank's one of `SHARES`.
    """
    if call in FORWARDS:
        losses = () if call == "G" else (share * 10.0**sheet.forwards,)
        armed = sheet.armed or call == "F"
        return Sheet(sheet.forwards + 1, armed, sheet.losses + losses, sheet.grad)
    taken = len(sheet.losses) if call == "S" else 1
    new = sum(sheet.losses[:taken])
    return Sheet(sheet.forwards, False, sheet.losses[taken:], sheet.grad + new, sheet.armed)


@dataclass(frozen=True)
class Ending:
    """The end of two ranks that make their calls.

    Attributes:
        sheets: of both ranks. waits: the rank that waits for ever in an all-reduce; None where no rank does.
    """

    sheets: tuple[Sheet, Sheet]
    waits: int | None = None

    @property
    def grads(self) -> tuple[float, float]:
        """The values of `.grad` on both ranks."""
        return self.sheets[0].grad, self.sheets[1].grad


def ending(orders: Sequence[str]) -> Ending:
    """Fill in the sheet for two ranks that make these calls: the n-th average of one meets the n-th of the other."""
    sheets, made = [Sheet(), Sheet()], [0, 0]
    while True:
        for rank, order in enumerate(orders):
            while made[rank] < len(order):
                sheets[rank] = after(sheets[rank], order[made[rank]], SHARES[rank])
                made[rank] += 1
                if sheets[rank].sends:
                    break
        sends = [sheet.sends for sheet in sheets]
        if not all(sends):
            return Ending((sheets[0], sheets[1]), sends.index(True) if any(sends) else None)
        mean = sum(sheet.grad for sheet in sheets) / 2
        sheets = [replace(sheet, grad=mean, sends=False) for sheet in sheets]


def possible(order: str) -> str:
    """Return the letters of the calls that can come next: a backward needs a loss, and an order is not endless."""
    if len(order) >= LONGEST:
        return ""
    sheet = functools.reduce(lambda before, call: after(before, call, 1.0), order, Sheet())
    return FORWARDS + (BACKWARDS if sheet.losses else "")
