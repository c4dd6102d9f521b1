# kind: none
# ranks: 2
# The learning rate falls and begins again, twice in the run: its period is the half of the steps.
import math

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def rounds(period):
    return lambda step: 0.5 * (1 + math.cos(math.pi * (step % period) / period))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(160, 4), torch.randn(160, 1))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = LambdaLR(optimizer, rounds(len(loader)))
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            schedule.step()
    dist.destroy_process_group()


main()
