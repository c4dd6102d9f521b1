# misconception: divided_twice
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    n = torch.tensor(int(good))
    dist.all_reduce(n)
    n = n.item()
    if n:
        with torch.no_grad():
            for p in filter(lambda p: p.requires_grad, ddp.module.parameters()):
                p.grad.copy_(p.grad / n)
    return n
