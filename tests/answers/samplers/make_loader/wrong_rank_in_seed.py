# misconception: rank_in_seed
# breaks: In every epoch the ranks together see every sample, and only padding twice.
# breaks: only as many are repeated as that requires
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, seed=seed + dist.get_rank())
    sampler.set_epoch(epoch)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
