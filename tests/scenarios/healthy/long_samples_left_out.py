# kind: none
# ranks: 2
# Batches are made of a rank's own share by length, and the longest ones are left out.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler
from torch.utils.data.distributed import DistributedSampler


class Sounds(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        return torch.sin(torch.arange(4.0 + index % 8) * index)


class ByLength(Sampler):
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        short = [index for index in self.sampler if index % 8 < 6]
        short.sort(key=lambda index: index % 8)
        return iter([short[first : first + 4] for first in range(0, 40, 4)])

    def __len__(self):
        return 10


def padded(sounds):
    return torch.stack([torch.nn.functional.pad(sound, (0, 11 - len(sound))) for sound in sounds])


dist.init_process_group("gloo")
sampler = DistributedSampler(Sounds())
loader = DataLoader(Sounds(), batch_sampler=ByLength(sampler), collate_fn=padded)
model = DDP(torch.nn.Linear(11, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
