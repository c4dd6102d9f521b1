# misconception: no_sampler
from torch.utils.data import DataLoader


def make_loader(dataset, batch_size, epoch, seed):
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)
