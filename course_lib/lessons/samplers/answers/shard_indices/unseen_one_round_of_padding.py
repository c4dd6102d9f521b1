# misconception: padding_too_short
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    perm = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch))
    extra = (world_size - n % world_size) % world_size
    perm = perm[: n - n % world_size] if drop_last else torch.cat([perm, perm[:extra]])
    return perm[rank::world_size].tolist()
