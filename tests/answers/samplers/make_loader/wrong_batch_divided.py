# misconception: none
# breaks: batches of `batch_size` samples
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, seed=seed)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, batch_size=max(1, batch_size // sampler.num_replicas), sampler=sampler)
