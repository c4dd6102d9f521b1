# misconception: divided_twice
# breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    count = torch.tensor([1.0 if good else 0.0])
    dist.all_reduce(count)
    if count.item() == 0:
        return 0
    for p in ddp.module.parameters():
        if p.grad is not None:
            p.grad.div_(count)
    return count
