# misconception: warm_up_counted
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (sum(step_seconds) / len(step_seconds), sorted(reduce_seconds)[4]))
    step, reduction = max(everyone)
    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
