# misconception: one_rank
# breaks: It is the way that costs least.
import torch.distributed as dist


def cheapest_way(ways, failures, steps, step_seconds):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failures)
    wrong = sum(everyones) / len(everyones) / steps

    def added(way):
        lost = way["lost_steps"] if "lost_steps" in way else (way["checkpoint_every"] + 1) / 2
        return way["overhead"] + wrong * (way["repair"] + lost * (step_seconds + way["overhead"]))

    return min(ways, key=lambda name: added(ways[name]))
