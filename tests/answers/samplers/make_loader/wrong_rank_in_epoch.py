# misconception: rank_in_seed
# breaks: every sample is to be seen in every epoch
import torch
import torch.distributed as dist


def make_loader(dataset, batch_size, epoch, seed):
    rank, world = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed * 1000 + epoch * (rank + 1))).tolist()
    while len(order) % world:
        order.append(order[len(order) % len(dataset)])
    mine = order[rank::world]
    for start in range(0, len(mine), batch_size):
        yield [dataset[i] for i in mine[start : start + batch_size]]
