# misconceptions: divided_twice, nobody_good
# breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    count = torch.tensor(float(good))
    dist.all_reduce(count)
    for p in ddp.parameters():
        if p.grad is not None:
            p.grad /= count
    return int(count)
