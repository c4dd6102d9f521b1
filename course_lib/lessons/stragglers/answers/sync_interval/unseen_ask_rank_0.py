# misconception: rank_0_decides
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    numbers = [sorted(step_seconds)[6], sorted(reduce_seconds)[4]]
    dist.broadcast_object_list(numbers, src=0)
    step, reduction = numbers
    for k in range(1, longest + 1):
        if reduction <= share * (k * step + reduction):
            return k
    return longest
