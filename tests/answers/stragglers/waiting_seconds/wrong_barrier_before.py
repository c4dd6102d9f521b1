# misconception: before_backward
# breaks: Ranks that stand waiting for a late one say how long.
# breaks: seconds of it the rank stood waiting for others
# breaks: or they compute longer in it
import time

import torch.distributed as dist


def waiting_seconds(ddp, loss):
    begin = time.perf_counter()
    dist.barrier()
    waited = time.perf_counter() - begin
    loss.backward()
    return waited
