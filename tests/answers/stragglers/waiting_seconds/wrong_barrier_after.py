# misconception: after_backward
# breaks: Ranks that stand waiting for a late one say how long.
# breaks: and not yet allowed to go on
# breaks: waits for other ranks in `loss.backward()`
import time

import torch.distributed as dist


def waiting_seconds(ddp, loss):
    loss.backward()
    begin = time.perf_counter()
    dist.barrier()
    return time.perf_counter() - begin
