# misconception: not_averaged
# breaks: The backward is DDP's: afterwards all ranks have the mean gradients.
# breaks: Do `loss.backward()` on this rank
# breaks: Afterwards all ranks have mean gradients, as ever.
import time

import torch
import torch.distributed as dist


def waiting_seconds(ddp, loss):
    parameters = list(ddp.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    begin = time.perf_counter()
    dist.barrier()
    return time.perf_counter() - begin
