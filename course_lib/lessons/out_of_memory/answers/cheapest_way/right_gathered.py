import math

#~ chances_added -2
import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    wrong = 1 - math.prod(1 - n / steps for n in everyones)
#~ chances_added -1 |    wrong = sum(everyones) / steps
#~ capped -1 |    wrong = min(1.0, sum(everyones) / steps)
#~ first_rank -1 |    wrong = everyones[0] / steps
#~ worst_rank -1 |    wrong = max(everyones) / steps
#~ failures_while_redoing -0 |    wrong /= 1 - wrong  # what is done again fails as often, and so on
    costs = {}
    for name, way in ways.items():
        k = way.get("checkpoint_every")
        lost = way["lost_steps"] if k is None else sum(range(1, k + 1)) / k
#~ half_an_interval -1 |        lost = way["lost_steps"] if k is None else k / 2
#~ steps_before -1 |        lost = way["lost_steps"] if k is None else (k - 1) / 2
        costs[name] = way["overhead"] + wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))
#~ redone_for_nothing -1 |        costs[name] = way["overhead"] + wrong * (way["repair"] + lost * step_seconds)
#~ repair_forgotten -1 |        costs[name] = way["overhead"] + wrong * lost * (step_seconds + way["overhead"])
    return min(costs, key=costs.get)
#~ first_way -1 |    return next(iter(ways))
#~ lost_work -6 |
#~ |    def added(way):
#~ |        return way["overhead"] + wrong * way["repair"]
#~ |
#~ |    return min(ways, key=lambda name: added(ways[name]))
#~ overhead_forgotten -6 |
#~ |    def added(way):
#~ |        lost = way["lost_steps"] if "lost_steps" in way else (way["checkpoint_every"] + 1) / 2
#~ |        return way["repair"] + lost * (step_seconds + way["overhead"])
#~ |
#~ |    return min(ways, key=lambda name: added(ways[name]))
#~ returns_the_cost -1 |    return min(costs.values())
#~ whole_interval -6 |
#~ |    def added(way):
#~ |        lost = way.get("lost_steps", way.get("checkpoint_every"))
#~ |        return way["overhead"] + wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))
#~ |
#~ |    return min(ways, key=lambda name: added(ways[name]))

#~ capped: misconception: chances_added
#~ chances_added: misconception: chances_added
#~ chances_added: breaks: It is the way that costs least.
#~ failures_while_redoing: misconception: redoing_fails_too
#~ failures_while_redoing: breaks: It is the way that costs least.
#~ first_rank: misconception: one_rank
#~ first_way: misconception: none
#~ half_an_interval: misconception: failed_step_forgotten
#~ half_an_interval: breaks: It is the way that costs least.
#~ lost_work: misconception: lost_work_forgotten
#~ lost_work: breaks: It is the way that costs least.
#~ overhead_forgotten: misconception: overhead_forgotten
#~ overhead_forgotten: breaks: It is the way that costs least.
#~ redone_for_nothing: misconception: redone_for_nothing
#~ repair_forgotten: misconception: repair_forgotten
#~ repair_forgotten: breaks: It is the way that costs least.
#~ returns_the_cost: misconception: none
#~ steps_before: misconception: failed_step_forgotten
#~ steps_before: breaks: It is the way that costs least.
#~ whole_interval: misconception: whole_interval_lost
#~ whole_interval: breaks: It is the way that costs least.
#~ worst_rank: misconception: one_rank
