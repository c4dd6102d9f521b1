# misconception: stale
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    for p in ddp.parameters():
        if p.grad is not None:
            p.grad.requires_grad_(False)  # forget what came before

    device = next(ddp.parameters()).device
    count = torch.tensor([sum(len(x) for x, _ in micro_batches)], device=device)
    dist.all_reduce(count)
    count = int(count)

    result = torch.zeros((), device=device)
    waiting = list(micro_batches)
    while waiting:
        x, y = waiting.pop(0)
        with ddp.no_sync() if waiting else nullcontext():
            share = losses_of(ddp(x), y).sum() / count
            (share * dist.get_world_size()).backward()
        result += share.detach()
    dist.all_reduce(result)
    return float(result)
