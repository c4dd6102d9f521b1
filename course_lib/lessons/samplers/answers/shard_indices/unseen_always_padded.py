# misconception: drop_last_ignored
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    perm = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).repeat(world_size)
    return perm[: -(-n // world_size) * world_size].view(-1, world_size)[:, rank]
