# misconception: bound_ignored
# breaks: It is between 1 and `longest`.
# breaks: Never more than `longest` steps from one reduction to the next, whatever the share
import math
from statistics import median

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    step = torch.tensor(median(step_seconds), dtype=torch.float64)
    reduction = torch.tensor(median(reduce_seconds), dtype=torch.float64)
    dist.all_reduce(step, op=dist.ReduceOp.MAX)
    dist.all_reduce(reduction, op=dist.ReduceOp.MIN)
    return max(1, math.ceil(reduction * (1 - share) / (share * step)))
