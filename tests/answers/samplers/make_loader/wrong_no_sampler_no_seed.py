# misconception: no_sampler
# breaks: The same epoch and seed give the same order again.
from torch.utils.data import DataLoader


def make_loader(dataset, batch_size, epoch, seed):
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)
