# misconception: only_the_good
# breaks: On every rank the gradients are the mean over the good ranks; zeros where there is none.
# breaks: the mean over the *good* ranks, on all ranks
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    count = torch.tensor(float(good))
    dist.all_reduce(count)
    if good:
        for p in ddp.parameters():
            if p.grad is not None:
                p.grad *= dist.get_world_size() / count
    return count.item()
