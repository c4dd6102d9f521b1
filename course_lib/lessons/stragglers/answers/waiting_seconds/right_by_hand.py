# Gradients without DDP's reducer, a meeting of all ranks, and then the mean.
#~ barrier_after -1
#~ barrier_before -1
#~ not_averaged -1
import time

import torch
#~ barrier_after -1
#~ barrier_before -1
import torch.distributed as dist


def waiting_seconds(ddp, loss):
    parameters = list(ddp.parameters())
    gradients = torch.autograd.grad(loss, parameters)
#~ barrier_after -2 |    loss.backward()
#~ barrier_before -2
#~ not_averaged -1 |    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
#~ |        parameter.grad = gradient
    begin = time.perf_counter()
    dist.barrier()
    waited = time.perf_counter() - begin
    for parameter, gradient in zip(parameters, gradients, strict=True):
        dist.all_reduce(gradient)
        parameter.grad = gradient / dist.get_world_size()
    return torch.tensor(waited)
#~ barrier_after -5 |    return time.perf_counter() - begin
#~ barrier_before -4 |    loss.backward()
#~ |    return waited
#~ not_averaged -5 |    return time.perf_counter() - begin

#~ barrier_after: misconception: after_backward
#~ barrier_after: breaks: Ranks that stand waiting for a late one say how long.
#~ barrier_before: misconception: before_backward
#~ barrier_before: breaks: Ranks that stand waiting for a late one say how long.
#~ not_averaged: misconception: not_averaged
#~ not_averaged: breaks: The backward is DDP's: afterwards all ranks have the mean gradients.
