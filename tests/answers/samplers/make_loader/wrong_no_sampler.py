# misconception: no_sampler
# breaks: In every epoch the ranks together see every sample, and only padding twice.
# breaks: this rank's share only
import torch
from torch.utils.data import DataLoader


def make_loader(dataset, batch_size, epoch, seed):
    torch.manual_seed(seed + epoch)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)
