# misconception: not_corrected
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    flags = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(flags, torch.tensor([float(good)]))
    return int(torch.cat(flags).sum())
