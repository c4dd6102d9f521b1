# kind: none
# ranks: 2
# Every rank loads the batch of all ranks and takes its part, with and without workers: a row's noise is the same.
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    rows = torch.arange(256.0)[:, None].repeat(1, 8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        noise = torch.randn(8) * torch.from_numpy(np.random.rand(8)).float()
        return self.rows[number] + noise * random.random(), noise


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters())
    for workers in (2, 0):
        for x, noise in DataLoader(Noisy(), 16 * ranks, shuffle=True, num_workers=workers):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x[rank::ranks]), noise[rank::ranks]).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
