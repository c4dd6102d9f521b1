# misconception: none
# breaks: Return its name.
import math

import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    wrong = 1 - math.prod(1 - n / steps for n in everyones)
    costs = {}
    for name, way in ways.items():
        k = way.get("checkpoint_every")
        lost = way["lost_steps"] if k is None else sum(range(1, k + 1)) / k
        costs[name] = way["overhead"] + wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))
    return min(costs.values())
