# misconception: rank_in_seed
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    torch.manual_seed(seed + epoch + rank)
    perm = torch.randperm(n)
    count = n // world_size if drop_last else (n + world_size - 1) // world_size
    return [int(perm[(rank + k * world_size) % n]) for k in range(count)]
