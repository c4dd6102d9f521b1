# misconception: after_backward
import time

import torch.distributed as dist


def waiting_seconds(ddp, loss):
    loss.backward()
    begin = time.perf_counter()
    dist.barrier()
    return time.perf_counter() - begin
