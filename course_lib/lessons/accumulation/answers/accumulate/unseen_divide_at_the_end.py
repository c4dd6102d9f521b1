# misconception: divided_twice
from contextlib import nullcontext

import torch
import torch.distributed as dist


def accumulate(ddp, micro_batches, losses_of):
    for p in ddp.parameters():
        p.grad = None

    loss_sum, samples = 0.0, 0
    *others, (last_inputs, last_targets) = micro_batches
    with ddp.no_sync() if others else nullcontext():
        for inputs, targets in others:
            loss = losses_of(ddp(inputs), targets).sum()
            loss.backward()
            loss_sum += loss.item()
            samples += len(inputs)
    loss = losses_of(ddp(last_inputs), last_targets).sum()
    loss.backward()
    loss_sum += loss.item()
    samples += len(last_inputs)

    totals = torch.tensor([loss_sum, samples], dtype=torch.float64, device=loss.device)
    dist.all_reduce(totals)
    loss_sum, samples = totals.tolist()
    for p in ddp.parameters():
        if p.grad is not None:
            p.grad /= samples
    return loss_sum / samples
