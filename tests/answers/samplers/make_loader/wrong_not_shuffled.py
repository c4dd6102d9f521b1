# misconception: not_shuffled
# breaks: The order changes from epoch to epoch.
# breaks: the order changes from epoch to epoch
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, shuffle=False, seed=seed)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
