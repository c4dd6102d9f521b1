# misconception: samples_dropped
# breaks: In every epoch the ranks together see every sample, and only padding twice.
# breaks: every sample is to be seen
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, seed=seed)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, drop_last=True)
