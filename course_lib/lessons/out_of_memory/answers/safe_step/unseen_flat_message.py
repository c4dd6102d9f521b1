# misconception: own_part
import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector


def safe_step(ddp, optimizer, inputs, targets, losses_of):
    old = [b.clone() for b in ddp.module.buffers()]
    params = [p for p in ddp.parameters() if p.requires_grad]
    message = torch.zeros(1 + sum(p.numel() for p in params))
    try:
        with ddp.no_sync():
            grads = torch.autograd.grad(losses_of(ddp(inputs), targets).sum(), params)
        message[0] = len(inputs)
        message[1:] = parameters_to_vector(grads)
    except RuntimeError as e:
        if "can't allocate memory" not in str(e):
            raise
        for b, o in zip(ddp.module.buffers(), old):
            b.copy_(o)
    dist.all_reduce(message)
    if message[0] == 0:
        return
    offset = 1
    for p in params:
        p.grad = message[offset : offset + p.numel()].view_as(p) / message[0]
        offset += p.numel()
    optimizer.step()
