# misconception: rounded_down
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (sorted(step_seconds)[6], sorted(reduce_seconds)[4]))
    step, reduction = max(everyone)
    return int(min(longest, max(1, reduction * (1 - share) // (share * step))))
