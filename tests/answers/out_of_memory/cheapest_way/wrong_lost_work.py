# misconception: lost_work_forgotten
# breaks: It is the way that costs least.
# breaks: the steps of the whole gang that one failure throws away
# breaks: the way that adds the fewest seconds to a step
import math

import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    wrong = 1 - math.prod(1 - n / steps for n in everyones)

    def added(way):
        return way["overhead"] + wrong * way["repair"]

    return min(ways, key=lambda name: added(ways[name]))
