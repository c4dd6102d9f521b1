# misconception: not_corrected
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    count = torch.tensor(float(good))
    dist.all_reduce(count)
    return count.item()
