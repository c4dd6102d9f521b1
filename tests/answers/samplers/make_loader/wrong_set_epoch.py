# misconception: set_epoch_forgotten
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, seed=seed)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
