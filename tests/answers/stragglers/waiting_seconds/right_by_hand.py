# Gradients without DDP's reducer, a meeting of all ranks, and then the mean.
import time

import torch
import torch.distributed as dist


def waiting_seconds(ddp, loss):
    parameters = list(ddp.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    begin = time.perf_counter()
    dist.barrier()
    waited = time.perf_counter() - begin
    for parameter, gradient in zip(parameters, gradients, strict=True):
        dist.all_reduce(gradient)
        parameter.grad = gradient / dist.get_world_size()
    return torch.tensor(waited)
