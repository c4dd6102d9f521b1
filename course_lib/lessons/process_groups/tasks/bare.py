"""A rank as a launcher leaves it: without a process group. Used inside a rank."""

from __future__ import annotations

import os
import sys
from typing import Any


def without_group() -> None:
    """Take away the process group that the grader's gangs come with, or that an answer has left behind."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def play_two_machines(world_size: int) -> None:
    """Set what `torchrun` would set if the first half of the ranks were on one machine, the second on another."""
    rank, on_each = int(os.environ["RANK"]), max(1, world_size // 2)
    os.environ.update(
        LOCAL_RANK=str(rank % on_each),
        LOCAL_WORLD_SIZE=str(on_each),
        GROUP_RANK=str(rank // on_each),
        GROUP_WORLD_SIZE=str(world_size // on_each),
        CUDA_VISIBLE_DEVICES="",
    )
    sys.argv = ["train.py"]


def sum_of_ranks() -> float:
    """Return 0 + 1 + ... over the default group, by all_reduce."""
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(os.environ["RANK"])])
    dist.all_reduce(total)
    return total.item()


def timeout_seconds() -> float:
    """Return the timeout of the default group."""
    import torch
    import torch.distributed as dist

    group: Any = dist.group.WORLD
    seconds: float = group._get_backend(torch.device("cpu")).options._timeout.total_seconds()
    return seconds
