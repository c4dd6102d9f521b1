# kind: none
# ranks: 2
# The schedule is made for six epochs of one rank's batches. All ranks agree after three that it is good enough.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = 6


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = OneCycleLR(optimizer, max_lr=0.1, total_steps=EPOCHS * len(loader))
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        train(model, loader, optimizer, schedule)
        good = torch.tensor(float(epoch == 2))
        dist.all_reduce(good)
        if good:
            break
    dist.destroy_process_group()


def train(model, loader, optimizer, schedule):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()


main()
