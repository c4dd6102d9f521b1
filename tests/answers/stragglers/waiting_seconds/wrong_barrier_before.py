# misconception: before_backward
import time

import torch.distributed as dist


def waiting_seconds(ddp, loss):
    begin = time.perf_counter()
    dist.barrier()
    waited = time.perf_counter() - begin
    loss.backward()
    return waited
