# misconception: mean_of_means
# breaks: On every rank .grad holds the gradient of the mean loss over all samples of all ranks.
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    world = dist.get_world_size()
    own = sum(len(inputs) for inputs, _ in micro_batches)
    total = torch.tensor(float(own))
    dist.all_reduce(total)
    ddp.zero_grad()
    loss = torch.zeros(())
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        with nullcontext() if number == len(micro_batches) else ddp.no_sync():
            part = losses_of(ddp(inputs), targets).sum()
            (part / len(inputs) / len(micro_batches)).backward()
        loss += part.detach()
    dist.all_reduce(loss)
    return (loss / total).item()
