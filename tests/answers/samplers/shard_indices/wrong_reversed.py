# misconception: none
# breaks: in order.
import math

import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order = torch.randperm(n, generator=generator).tolist()
    if drop_last:
        order = order[: n // world_size * world_size]
    else:
        total = math.ceil(n / world_size) * world_size
        order = (order * math.ceil(total / n))[:total]
    return order[rank::world_size][::-1]
