# misconception: waiting_counted
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (sorted(step_seconds)[len(step_seconds) // 2], sum(reduce_seconds) / len(reduce_seconds)))
    step = max(s for s, _ in everyone)
    reduction = sum(r for _, r in everyone) / len(everyone)
    return max(1, min(longest, math.ceil(reduction * (1 - share) / share / step)))
