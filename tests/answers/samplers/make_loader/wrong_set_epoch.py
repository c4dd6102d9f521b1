# misconception: set_epoch_forgotten
# breaks: The order changes from epoch to epoch.
# breaks: in epoch `epoch`
# breaks: the order changes from epoch to epoch
# breaks: of epoch `epoch`
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    sampler = DistributedSampler(dataset, seed=seed)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
