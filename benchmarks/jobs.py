"""The functions that the cells of a notebook hand to `spawn` and to `notebook_launcher`.

They are in a file because `spawn` cannot send functions that were defined in a cell.
"""

from __future__ import annotations

import torch.distributed as dist


def as_rank(rank: int, world_size: int, meeting_point: str, source: str) -> None:
    """Run the source as a rank of `torch.multiprocessing.spawn`."""
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=world_size)
    exec(source, {"__name__": "__main__"})
    dist.destroy_process_group()


def as_launched(source: str) -> None:
    """Run the source as a rank of `accelerate.notebook_launcher`."""
    from accelerate import PartialState

    PartialState(cpu=True)
    exec(source, {"__name__": "__main__"})
    dist.destroy_process_group()
