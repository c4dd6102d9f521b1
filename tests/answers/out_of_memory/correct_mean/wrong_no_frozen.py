# misconception: none
# breaks: a parameter may be frozen
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    count = torch.tensor([1.0 if good else 0.0])
    dist.all_reduce(count)
    if count.item() == 0:
        return 0
    for p in ddp.module.parameters():
        p.grad.mul_(dist.get_world_size()).div_(count)
    return count
