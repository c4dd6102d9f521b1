# misconception: whole_interval_lost
# breaks: It is the way that costs least.
# breaks: a failure strikes any of them with the same chance
import math

import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    wrong = 1 - math.prod(1 - n / steps for n in everyones)

    def added(way):
        lost = way.get("lost_steps", way.get("checkpoint_every"))
        return way["overhead"] + wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))

    return min(ways, key=lambda name: added(ways[name]))
