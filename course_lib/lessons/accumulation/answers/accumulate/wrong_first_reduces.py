# misconception: none
# breaks: On every rank .grad holds the gradient of the mean loss over all samples of all ranks.
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    total = torch.tensor(float(sum(len(inputs) for inputs, _ in micro_batches)))
    dist.all_reduce(total)
    ddp.zero_grad()
    loss = torch.zeros(())
    for number, (inputs, targets) in enumerate(micro_batches):
        with ddp.no_sync() if number else nullcontext():
            part = losses_of(ddp(inputs), targets).sum() / total
            (part * dist.get_world_size()).backward()
        loss += part.detach()
    dist.all_reduce(loss)
    return loss.item()
