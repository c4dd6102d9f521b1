# misconception: not_reduced
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    device = next(ddp.parameters()).device
    total = torch.tensor(sum(len(x) for x, _ in micro_batches), device=device)
    dist.all_reduce(total)
    factor = dist.get_world_size() / total.item()

    ddp.zero_grad()
    loss_sum = torch.zeros(1, device=device)
    for number, (inputs, targets) in enumerate(micro_batches):
        last = number == len(micro_batches)
        with nullcontext() if last else ddp.no_sync():
            loss = losses_of(ddp(inputs), targets).sum()
            (loss * factor).backward()
        loss_sum += loss.detach()
    dist.all_reduce(loss_sum)
    return loss_sum.item() / total.item()
