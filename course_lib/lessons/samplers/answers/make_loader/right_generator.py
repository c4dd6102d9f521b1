import torch
import torch.distributed as dist
#~ no_sampler -1 |from torch.utils.data import DataLoader


def make_loader(dataset, batch_size, epoch, seed):
    rank, world = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed * 1000 + epoch)).tolist()
#~ rank_in_epoch -1 |    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed * 1000 + epoch * (rank + 1))).tolist()
    while len(order) % world:
        order.append(order[len(order) % len(dataset)])
    mine = order[rank::world]
    for start in range(0, len(mine), batch_size):
        yield [dataset[i] for i in mine[start : start + batch_size]]
#~ no_sampler -7 |    torch.manual_seed(seed + epoch)
#~ |    return DataLoader(dataset, batch_size=batch_size, shuffle=True)

#~ no_sampler: misconception: no_sampler
#~ no_sampler: breaks: In every epoch the ranks together see every sample, and only padding twice.
#~ rank_in_epoch: misconception: rank_in_seed
