"""On which device this rank's tensors belong: used in rank cells, and in scripts that `torchrun` starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from realranks.ranks.inside import worker

if TYPE_CHECKING:
    import torch


def device() -> torch.device:
    """Return the device of this rank: its GPU, alone or shared with other ranks, or the CPU. For cells and scripts.

    `machine()` says why it is the CPU on a machine with GPUs. A script of your own, with one GPU per rank, says:

        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    """
    import torch

    if worker.CURRENT is not None:
        gpu = worker.CURRENT.config.gpu
        return torch.device("cpu") if gpu is None else torch.device("cuda", gpu)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return torch.device("cpu")
