# misconception: same_shard
# breaks: In every epoch the ranks together see every sample, and only padding twice.
# breaks: This rank's batches
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=0, seed=seed)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
