# misconception: no_padding
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    perm = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch))
    return [index for place, index in enumerate(perm.tolist()) if place % world_size == rank]
