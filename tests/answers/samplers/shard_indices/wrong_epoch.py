# misconception: epoch_ignored
# breaks: The shards are those of torch's DistributedSampler, in the same order.
# breaks: with `g` seeded as the sampler does it
# breaks: sees in `epoch`
import math

import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    if drop_last:
        order = order[: n // world_size * world_size]
    else:
        total = math.ceil(n / world_size) * world_size
        order = (order * math.ceil(total / n))[:total]
    return order[rank::world_size]
