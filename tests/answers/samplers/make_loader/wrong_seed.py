# misconception: seed_ignored
# breaks: Another seed gives another order.
# breaks: and with the seed
import torch
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(dataset, batch_size, epoch, seed):
    torch.manual_seed(seed)
    sampler = DistributedSampler(dataset)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
