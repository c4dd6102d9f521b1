# Rank 0 draws the order and sends it: unusual, and right.
#~ fresh_order -1
#~ uneven -1
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset
#~ no_sampler_no_seed -4 |from torch.utils.data import DataLoader


def make_loader(dataset, batch_size, epoch, seed):
    n, world = len(dataset), dist.get_world_size()
    order = torch.empty(-(-n // world) * world, dtype=torch.long)
    if dist.get_rank() == 0:
        drawn = torch.randperm(n, generator=torch.Generator().manual_seed(seed + 7919 * epoch))
#~ fresh_order -1 |        drawn = torch.randperm(n)
        order = drawn.repeat(world + 1)[: len(order)].contiguous()
    dist.broadcast(order, src=0)
    return DataLoader(Subset(dataset, order[dist.get_rank() :: world].tolist()), batch_size)
#~ no_sampler_no_seed -7 |    return DataLoader(dataset, batch_size=batch_size, shuffle=True)
#~ uneven -7 |    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed + epoch)).tolist()
#~ |    return DataLoader(Subset(dataset, order[dist.get_rank() :: dist.get_world_size()]), batch_size)

#~ fresh_order: misconception: none
#~ fresh_order: breaks: The same epoch and seed give the same order again.
#~ no_sampler_no_seed: misconception: no_sampler
#~ no_sampler_no_seed: breaks: The same epoch and seed give the same order again.
#~ uneven: misconception: uneven_shards
#~ uneven: breaks: Every rank has the same number of batches.
