# kind: straggler
# culprits: 1
# ranks: 2
# timeout: 3
# One rank preprocesses for long; the time is up before it is done, which proves no deadlock.
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        torch.randn(64, 64).square().sum()
dist.barrier()
dist.destroy_process_group()
