# misconception: rounded_down
# breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
# breaks: with which reductions take at most `share`
from statistics import median

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    step = torch.tensor(median(step_seconds), dtype=torch.float64)
    reduction = torch.tensor(median(reduce_seconds), dtype=torch.float64)
    dist.all_reduce(step, op=dist.ReduceOp.MAX)
    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)
    return min(longest, max(1, int(reduction * (1 - share) / (share * step))))
