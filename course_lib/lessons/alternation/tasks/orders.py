"""A tally sheet of what DDP remembers between calls; and real ranks that make the same calls.

Everything here speaks of a model with one weight. The k-th forward (from 0) sees the input 10^k on rank 0 and three
times that on rank 1; the input is the weight's gradient, so `.grad` tells which forwards are in it, and whether they
were averaged: 2, 20, 200 on both ranks are averages, 1 and 3, 10 and 30 are what each rank computed alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

#: What can be called, by its letter.
CALLS = {
    "F": "forward",
    "N": "forward in no_sync",
    "G": "forward in no_grad",
    "M": "forward through .module",
    "B": "backward of the oldest loss",
    "S": "one backward of all losses",
}
FORWARDS, BACKWARDS = "FNGM", "BS"
#: The input of the first forward, on rank 0 and on rank 1.
SHARES = (1.0, 3.0)
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
        wants: the gradients that backwards have gone through, added up: what `.grad` would be without DDP.
    """

    forwards: int = 0
    armed: int = 0
    losses: tuple[float, ...] = ()
    grad: float = 0.0
    sends: bool = False
    wants: float = 0.0


def after(sheet: Sheet, call: str, share: float, rules: Rules = DDP) -> Sheet:
    """Return the sheet after one more call, before an average has come back.

    Args:
        call: a letter of `CALLS`. share: this rank's one of `SHARES`.
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
        sheet.wants + new,
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

    @property
    def right(self) -> float:
        """The correct value of `.grad`: the mean of what each rank would have without DDP."""
        return (self.sheets[0].wants + self.sheets[1].wants) / 2

    def __str__(self) -> str:
        if self.waits is not None:
            return f"rank {self.waits} waits for ever: the other rank has made fewer averages"
        values = " and ".join(f"{grad:g}" for grad in self.grads)
        if self.grads == (self.right, self.right):
            return f"{values}: right"
        return f"{values}: no error, and wrong (right is {self.right:g} on both)"


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


def make_calls(orders: Sequence[str], wrap: Callable[[nn.Module], nn.Module] | None = None) -> float:
    """Return `.grad` after this rank's calls on a wrapped model that has made three steps; runs on two ranks.

    Args:
        wrap: what wraps the model; DDP, if left out.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank, net = dist.get_rank(), torch.nn.Linear(1, 1, bias=False)
    ddp = (wrap or DistributedDataParallel)(net)
    # Afterwards no forward sends anything: buckets are rebuilt, with static_graph in the third step.
    for _ in range(3):
        ddp(torch.ones(1, 1)).sum().backward()
    ddp.zero_grad(set_to_none=False)
    losses: list[torch.Tensor] = []
    forwards = 0
    for call in orders[rank]:
        if call in BACKWARDS:
            taken, losses = (losses, []) if call == "S" else (losses[:1], losses[1:])
            torch.stack(taken).sum().backward()
            continue
        x = torch.full((1, 1), 10.0**forwards * SHARES[rank])
        forwards += 1
        with {"N": getattr(ddp, "no_sync", nullcontext), "G": torch.no_grad}.get(call, nullcontext)():
            loss = (net if call == "M" else ddp)(x).sum()
        losses += [loss] if loss.requires_grad else []
    assert net.weight.grad is not None
    return float(net.weight.grad)
