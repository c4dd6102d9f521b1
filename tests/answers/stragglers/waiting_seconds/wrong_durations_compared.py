# misconception: none
# breaks: they begin their backward later
# breaks: Ranks that stand waiting for a late one say how long.
import time

import torch
import torch.distributed as dist


def waiting_seconds(ddp, loss):
    last = begin = time.perf_counter()

    def note(_):
        nonlocal last
        last = time.perf_counter()

    for parameter in ddp.parameters():
        parameter.register_post_accumulate_grad_hook(note)
    loss.backward()
    longest = torch.tensor(last - begin)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return longest.item() - (last - begin)
