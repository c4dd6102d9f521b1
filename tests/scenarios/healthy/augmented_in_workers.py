# kind: none
# ranks: 2
# The model begins alike by one seed, the workers of each rank with seeds of their own.
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
        noise = torch.randn(8) * torch.from_numpy(np.random.rand(8)).float()
        return self.rows[number] + noise * random.random(), noise


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters())
    data = Noisy()
    own = torch.Generator().manual_seed(dist.get_rank())
    loader = DataLoader(data, 8, sampler=DistributedSampler(data), num_workers=2, generator=own)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, noise in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), noise).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
