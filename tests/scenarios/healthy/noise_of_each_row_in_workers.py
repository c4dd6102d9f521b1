# kind: none
# ranks: 2
# Seeded alike, with and without workers; the noise is the row's: by a generator of its own, or the row's seed.
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Noisy(Dataset):
    rows = torch.arange(128.0)[:, None].repeat(1, 8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        noise = torch.randn(8, generator=torch.Generator().manual_seed(number))
        np.random.seed(number)
        random.seed(number)
        noise += torch.from_numpy(np.random.rand(8)).float() * random.random()
        return self.rows[number] + noise, noise


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters())
    data = Noisy()
    sampler = DistributedSampler(data)
    loaders = [DataLoader(data, 8, sampler=sampler, num_workers=workers) for workers in (2, 0)]
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for x, noise in loaders[epoch % 2]:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), noise).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
