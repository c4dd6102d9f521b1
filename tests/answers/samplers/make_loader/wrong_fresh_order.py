# misconception: none
# breaks: is the same when the epoch is run again
# breaks: The same epoch and seed give the same order again.
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset


def make_loader(dataset, batch_size, epoch, seed):
    n, world = len(dataset), dist.get_world_size()
    order = torch.empty(-(-n // world) * world, dtype=torch.long)
    if dist.get_rank() == 0:
        drawn = torch.randperm(n)
        order = drawn.repeat(world + 1)[: len(order)].contiguous()
    dist.broadcast(order, src=0)
    return DataLoader(Subset(dataset, order[dist.get_rank() :: world].tolist()), batch_size)
