import torch.distributed as dist


def cheapest_way(ways, failed):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, failed)
    share = sum(any(step) for step in zip(*everyones)) / len(failed)
#~ own -3 |    share = sum(failed) / len(failed)
#~ first_rank -1 |    share = sum(everyones[0]) / len(failed)
#~ worst_rank -1 |    share = max(map(sum, everyones)) / len(failed)
#~ average_rank -1 |    share = sum(map(sum, everyones)) / len(everyones) / len(failed)
#~ all_at_once -1 |    share = sum(all(step) for step in zip(*everyones)) / len(failed)
#~ counted_twice -1 |    share = sum(map(sum, everyones)) / len(failed)
    costs = {name: way["overhead"] + share * way["price"] for name, way in ways.items()}
    return min(costs, key=costs.get)
#~ first_way -1 |    return next(iter(ways))
#~ returns_the_cost -1 |    return min(costs.values())

#~ all_at_once: misconception: one_rank
#~ average_rank: misconception: one_rank
#~ average_rank: breaks: It is the way that costs least.
#~ counted_twice: misconception: counted_twice
#~ counted_twice: breaks: It is the way that costs least.
#~ first_rank: misconception: one_rank
#~ first_way: misconception: none
#~ own: misconception: own_failures
#~ own: breaks: All ranks choose the same.
#~ returns_the_cost: misconception: none
#~ worst_rank: misconception: one_rank
