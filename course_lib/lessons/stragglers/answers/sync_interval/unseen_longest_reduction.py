# misconception: waiting_counted
import math

import torch
import torch.distributed as dist


def sync_interval(step_seconds, reduce_seconds, share, longest):
    world = dist.get_world_size()
    times = torch.tensor([torch.tensor(step_seconds).median(), torch.tensor(reduce_seconds).median()])
    everyone = [torch.zeros(2) for _ in range(world)]
    dist.all_gather(everyone, times)
    step = max(float(t[0]) for t in everyone)
    reduction = max(float(t[1]) for t in everyone)
    return max(1, min(longest, math.ceil(reduction * (1 / share - 1) / step)))
