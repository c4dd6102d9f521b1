# misconception: contiguous_blocks
import torch


def shard_indices(n, rank, world_size, epoch, seed, drop_last):
    perm = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    if drop_last:
        perm = perm[: len(perm) - len(perm) % world_size]
    else:
        k = 0
        while len(perm) % world_size:
            perm.append(perm[k])
            k += 1
    each = len(perm) // world_size
    return perm[each * rank : each * rank + each]
