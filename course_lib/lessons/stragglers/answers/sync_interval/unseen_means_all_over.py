# misconceptions: average_rank, warm_up_counted
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    t = torch.tensor([sum(step_seconds), sum(reduce_seconds)])
    t /= torch.tensor([len(step_seconds), len(reduce_seconds)])
    dist.all_reduce(t)
    t /= dist.get_world_size()
    k = t[1] * (1 - share) / (t[0] * share)
    return int(k.ceil().clamp(1, longest))
