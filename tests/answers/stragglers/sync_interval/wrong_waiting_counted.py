# misconception: waiting_counted
# breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
# breaks: how long this rank stood in each reduction
import math
from statistics import median

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    slowest = torch.tensor([median(step_seconds), median(reduce_seconds)], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    step, reduction = slowest.tolist()
    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
