# misconception: contiguous_blocks
# breaks: The shards are those of torch's DistributedSampler, in the same order.
# breaks: until it can be dealt out evenly
import math

import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    size = n // world_size if drop_last else math.ceil(n / world_size)
    order = (order * (size * world_size + 1))[: size * world_size]
    return order[rank * size : (rank + 1) * size]
