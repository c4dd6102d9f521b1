# kind: none
# ranks: 2
# Workers that live on between epochs, set_epoch in each, and augmentation that is another one on every rank.
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Flipped(Dataset):
    def __len__(self):
        return 33

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(4, generator=generator) * random.choice((-1, 1))


dist.init_process_group("gloo")
random.seed(dist.get_rank())
data = Flipped()
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=1, persistent_workers=True)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
