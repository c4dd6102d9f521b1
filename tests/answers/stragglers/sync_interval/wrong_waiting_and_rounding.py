# misconceptions: waiting_counted, rounded_down
# breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
import math
from statistics import median

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    slowest = torch.tensor([median(step_seconds), median(reduce_seconds)], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    step, reduction = slowest.tolist()
    return min(longest, max(1, math.floor(reduction * (1 - share) / (share * step))))
