# misconception: only_the_good
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    n = torch.tensor([1]) if good else torch.tensor([0])
    dist.all_reduce(n)
    if not good:
        return n.item()
    factor = dist.get_world_size() / n.item()
    for p in ddp.module.parameters():
        if p.requires_grad:
            p.grad *= factor
    return n.item()
