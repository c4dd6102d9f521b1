# misconception: mean_of_means
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    ddp.zero_grad()
    samples = sum(len(inputs) for inputs, _ in micro_batches)
    mean = torch.zeros((), device=next(ddp.parameters()).device)

    final = len(micro_batches) - 1
    for i, (inputs, targets) in enumerate(micro_batches):
        with ddp.no_sync() if i < final else nullcontext():
            loss = losses_of(ddp(inputs), targets).sum() / samples
            loss.backward()
        mean += loss.detach()

    # DDP has averaged the gradients, do the same with the loss
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).item()
