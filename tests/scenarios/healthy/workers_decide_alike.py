# kind: none
# ranks: 2
# Workers are seeded alike, so that all ranks cut a batch to the same length; another loader's draw nothing at all.
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, default_collate


def cut(rows):
    length = random.choice([4, 6, 8])
    return [part[:, :length] for part in default_collate(rows)]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Linear(1, 1))
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.arange(1024.0).reshape(128, 8))
    loaders = [
        DataLoader(data, 8, sampler=DistributedSampler(data), num_workers=2, collate_fn=collate)
        for collate in (cut, None)
    ]
    for loader in loaders:
        for (x,) in loader:
            optimizer.zero_grad()
            model(x[:, :, None]).square().mean().backward()
            optimizer.step()
    dist.destroy_process_group()


main()
