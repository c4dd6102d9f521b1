"""Sentinels that show, without a hang, which rank would wait for ever.

A rank that has ended, where another one may still wait for it in an all-reduce, sends marks: it joins every all-reduce
until all ranks have sent one in the same. No gradient comes near a mark, so a rank whose gradient has met one knows
that it would have waited for ever. All of these all-reduces have the same number of float32.

Torch is imported where it is used: this module is loaded in the kernel too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_MARK = 2.0**100


def send_marks(*shape: int) -> int:
    """Send marks until all ranks send one at the same time; return how many this rank sent."""
    import torch
    import torch.distributed as dist

    met, sent = torch.zeros(shape), 0
    while not met.eq(dist.get_world_size() * _MARK).all():
        met = torch.full(shape, _MARK)
        dist.all_reduce(met)
        sent += 1
    return sent


def met_a_mark(gradient: Tensor) -> bool:
    """Return whether another rank had ended when this gradient was averaged."""
    return bool((gradient.abs() > _MARK / 2**20).any())
