# misconception: none
# breaks: Return the smallest *k*
# breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
import math
import statistics

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    found = torch.tensor([statistics.median(step_seconds), -statistics.median(reduce_seconds)], dtype=torch.double)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    step, reduction = found[0].item(), -found[1].item()
    return longest if reduction > 0 else 1
