# misconception: average_rank
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (sum(step_seconds[1:]) / (len(step_seconds) - 1), min(reduce_seconds)))
    step = sum(s for s, _ in everyone) / len(everyone)
    reduction = min(r for _, r in everyone)
    return max(1, min(longest, math.ceil(reduction * (1 - share) / (share * step))))
