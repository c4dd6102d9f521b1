import itertools

import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    torch.manual_seed(seed + epoch)
    order = torch.randperm(n)
    keep = n // world_size if drop_last else -(-n // world_size)
    take = torch.arange(keep) * world_size + rank
    return order[take % n] if keep else torch.empty(0, dtype=torch.long)
