# misconception: average_rank
# breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
# breaks: of the gang's time
# breaks: One of them is slower than the others, it is always the same.
import math
from statistics import median

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    mean = torch.tensor([median(step_seconds), median(reduce_seconds)], dtype=torch.float64)
    dist.all_reduce(mean)
    step, reduction = (mean / dist.get_world_size()).tolist()
    return min(longest, max(1, math.ceil(reduction * (1 - share) / (share * step))))
