# misconception: rank_0_decides
# breaks: It is the smallest that keeps reductions within their share of the time, as far as `longest` allows.
# breaks: Each rank is given what it has measured itself.
import math
from statistics import median

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    needed = median(reduce_seconds) * (1 - share) / (share * median(step_seconds))
    interval = torch.tensor(min(longest, max(1, math.ceil(needed))))
    dist.broadcast(interval, src=0)
    return interval
