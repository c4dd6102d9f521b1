# misconception: uneven_shards
# breaks: Every rank has the same number of batches.
# breaks: Every rank gets the same number of samples
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset


def make_loader(dataset, batch_size, epoch, seed):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    return DataLoader(Subset(dataset, order[dist.get_rank() :: dist.get_world_size()]), batch_size)
