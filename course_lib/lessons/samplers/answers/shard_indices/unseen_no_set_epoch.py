# misconception: epoch_ignored
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    g = torch.Generator()
    g.manual_seed(seed)
    perm = list(torch.randperm(n, generator=g).numpy())
    if drop_last:
        perm = perm[: n - n % world_size]
    i = 0
    while len(perm) % world_size:
        perm.append(perm[i])
        i += 1
    return [int(x) for x in perm[rank::world_size]]
