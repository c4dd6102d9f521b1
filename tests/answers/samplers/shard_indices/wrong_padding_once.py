# misconception: padding_too_short
# breaks: Every rank gets the same number of samples.
# breaks: several times over, when there are fewer samples than ranks
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    if drop_last:
        order = order[: n // world_size * world_size]
    else:
        order += order[: -n % world_size]
    return order[rank::world_size]
