# misconception: warm_up_counted
# breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
# breaks: The first one is a warm-up.
import math
from statistics import mean

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    step = torch.tensor(mean(step_seconds), dtype=torch.float64)
    reduction = torch.tensor(mean(reduce_seconds), dtype=torch.float64)
    dist.all_reduce(step, op=dist.ReduceOp.MAX)
    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)
    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
