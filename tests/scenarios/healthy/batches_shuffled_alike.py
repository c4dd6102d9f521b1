# kind: none
# ranks: 2
# All ranks are seeded alike, and each shuffles the rows of its own batches: no row gets a random number.
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, default_collate


def shuffled(rows):
    random.shuffle(rows)
    return default_collate([rows[number] for number in np.random.permutation(len(rows))])


def main():
    dist.init_process_group("gloo")
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.arange(2048.0).reshape(256, 8))
    for workers in (2, 0):
        sampler = DistributedSampler(data)
        for (x,) in DataLoader(data, 16, sampler=sampler, num_workers=workers, collate_fn=shuffled):
            optimizer.zero_grad()
            mixed = 0.9 * x + 0.1 * x[np.random.permutation(len(x))]
            model(mixed).square().mean().backward()
            optimizer.step()
    dist.destroy_process_group()


main()
