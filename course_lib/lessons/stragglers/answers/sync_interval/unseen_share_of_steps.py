# misconception: reduction_left_out
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (sorted(step_seconds)[6], sorted(reduce_seconds)[4]))
    step, reduction = max(everyone)
    k = 1
    while reduction > share * k * step and k < longest:
        k += 1
    return k
