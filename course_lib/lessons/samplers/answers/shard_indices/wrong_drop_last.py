# misconception: drop_last_ignored
# breaks: The shards are those of torch's DistributedSampler, in the same order.
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last=False):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    while len(order) % world_size:
        order += order[: -len(order) % world_size]
    return order[rank::world_size]
