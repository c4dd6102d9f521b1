# misconception: mean_of_means
from contextlib import nullcontext

import torch
import torch.distributed as dist


def add_up(number, like):
    t = torch.tensor(float(number), dtype=torch.float64, device=like.device)
    dist.all_reduce(t)
    return t.item()


def accumulate(ddp, micro_batches, losses_of):
    some = next(ddp.parameters())
    world = dist.get_world_size()
    batches = add_up(len(micro_batches), some)
    ddp.zero_grad()
    mine = 0.0
    for k, (x, y) in enumerate(micro_batches, 1):
        with nullcontext() if k == len(micro_batches) else ddp.no_sync():
            loss = losses_of(ddp(x), y).mean()
            (loss * world / batches).backward()
        mine += loss.item()
    return add_up(mine, some) / batches
