# misconception: overhead_forgotten
# breaks: It is the way that costs least.
# breaks: `overhead`, seconds in *each* step
# breaks: Which one costs least?
import math

import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    wrong = 1 - math.prod(1 - n / steps for n in everyones)

    def added(way):
        lost = way["lost_steps"] if "lost_steps" in way else (way["checkpoint_every"] + 1) / 2
        return way["repair"] + lost * (step_seconds + way["overhead"])

    return min(ways, key=lambda name: added(ways[name]))
