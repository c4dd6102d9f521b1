# kind: none
# ranks: 2
# Ranks that are seeded alike decide for each step what all of them must do: a size, the layers to leave out, a mix of
# two losses. Dropout draws within the model.
import random

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x, keep):
        for layer, kept in zip(self.layers, keep, strict=True):
            x = nn.functional.dropout(layer(x), 0.1) if kept else x + 0 * layer(x)
        return x


def main():
    dist.init_process_group("gloo")
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    rows = TensorDataset(torch.randn(128, 8))
    loader = DataLoader(rows, batch_size=16, sampler=DistributedSampler(rows))
    model = DDP(Net())
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for (x,) in loader:
            keep = (torch.rand(6) < 0.7).tolist()
            share = np.random.beta(2, 2)
            size = random.choice([1.0, 0.5])
            optimizer.zero_grad()
            out = model(size * x, keep)
            (share * out.square().mean() + (1 - share) * out.abs().mean()).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
