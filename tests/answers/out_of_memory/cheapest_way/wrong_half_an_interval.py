# misconception: failed_step_forgotten
# breaks: It is the way that costs least.
# breaks: the failed one too
import math

import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    wrong = 1 - math.prod(1 - n / steps for n in everyones)
    costs = {}
    for name, way in ways.items():
        k = way.get("checkpoint_every")
        lost = way["lost_steps"] if k is None else k / 2
        costs[name] = way["overhead"] + wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))
    return min(costs, key=costs.get)
