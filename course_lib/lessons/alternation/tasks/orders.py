"""A tally sheet of what DDP remembers between calls, by its rules and by those that somebody may take for them.

The model has one weight; orders and inputs are those of `lab.reducer`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.lab.reducer import BACKWARDS, FORWARDS, SHARES

LONGEST = 6


@dataclass(frozen=True)
class Rules:
    """Rules of a sheet: DDP's by default, else those that somebody may take for them.

    Attributes:
        arm: the forwards that arm.
        purse: whether each of them buys an average, so that two of them pay for two backwards.
        only_new: whether an average is one of the last loss alone, not of all that is in `.grad`.
        summed: whether the ranks' gradients are added, not averaged.
    """

    arm: str = "F"
    purse: bool = False
    only_new: bool = False
    summed: bool = False


DDP = Rules()


@dataclass(frozen=True)
class Sheet:
    """The state of one rank between two calls.

    Attributes:
        forwards: how many it has made.
        armed: whether the next backward averages; by other rules than DDP's, how many do.
        losses: the gradients of the losses that wait for a backward, the oldest first.
        grad: what `.grad` holds.
        sends: whether the last call was a backward that takes part in an average.
    """

    forwards: int = 0
    armed: int = 0
    losses: tuple[float, ...] = ()
    grad: float = 0.0
    sends: bool = False


def after(sheet: Sheet, call: str, share: float, rules: Rules = DDP) -> Sheet:
    """Return the sheet after one more call, before an average has come back.

    Args:
        call: a letter of `reducer.CALLS`. share: this rank's one of `SHARES`.
    """
    if call in FORWARDS:
        losses = () if call == "G" else (share * 10.0**sheet.forwards,)
        armed = sheet.armed + (call in rules.arm)
        armed = armed if rules.purse else min(armed, 1)
        return replace(
            sheet, forwards=sheet.forwards + 1, armed=armed, losses=sheet.losses + losses, sends=False
        )
    taken = len(sheet.losses) if call == "S" else 1
    new = sum(sheet.losses[:taken])
    return Sheet(
        sheet.forwards,
        max(sheet.armed - 1, 0),
        sheet.losses[taken:],
        sheet.grad + new,
        sheet.armed > 0,
    )


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


def ending(orders: Sequence[str], rules: Rules = DDP) -> Ending:
    """Fill in the sheet for two ranks that make these calls: the n-th average of one meets the n-th of the other."""
    sheets, made, parts = [Sheet(), Sheet()], [0, 0], [0.0, 0.0]
    while True:
        for rank, order in enumerate(orders):
            while made[rank] < len(order):
                before = sheets[rank]
                sheets[rank] = after(before, order[made[rank]], SHARES[rank], rules)
                made[rank] += 1
                if sheets[rank].sends:
                    parts[rank] = sheets[rank].grad - (before.grad if rules.only_new else 0.0)
                    break
        sends = [sheet.sends for sheet in sheets]
        if not all(sends):
            return Ending((sheets[0], sheets[1]), sends.index(True) if any(sends) else None)
        met = sum(parts) / (1 if rules.summed else 2)
        sheets = [
            replace(sheet, grad=sheet.grad - part + met, sends=False)
            for sheet, part in zip(sheets, parts, strict=True)
        ]


def possible(order: str) -> str:
    """Return the letters of the calls that can come next: a backward needs a loss, and an order is not endless."""
    if len(order) >= LONGEST:
        return ""
    sheet = functools.reduce(lambda before, call: after(before, call, 1.0), order, Sheet())
    return FORWARDS + (BACKWARDS if sheet.losses else "")
