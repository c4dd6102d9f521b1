# misconception: none
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    ddp.zero_grad()
    world = dist.get_world_size()
    stats = torch.zeros(2, dtype=torch.float64, device=next(ddp.parameters()).device)
    last = len(micro_batches) - 1

    def one(inputs, targets):
        loss = losses_of(ddp(inputs), targets).sum()
        (world * loss).backward()
        stats[0] += loss.detach()
        stats[1] += len(inputs)

    for i, batch in enumerate(micro_batches):
        with nullcontext() if i == last else ddp.no_sync():
            one(*batch)

    dist.all_reduce(stats)
    return (stats[0] / stats[1]).item()
