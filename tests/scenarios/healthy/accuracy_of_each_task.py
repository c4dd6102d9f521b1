# kind: none
# ranks: 2
# Each rank evaluates a task of its own, and the tasks count alike, however many rows they have.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = torch.cat([model(x).argmax(1) == y for x, y in loader])
    mean = right.float().mean()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(128, 6), torch.randint(0, 3, (128,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    rows = TensorDataset(torch.randn(120, 6), torch.randint(0, 3, (120,)))
    tasks = [Subset(rows, range(37)), Subset(rows, range(37, 120))]
    files = [TensorDataset(*rows[:53]), TensorDataset(*rows[53:])]
    own = [DataLoader(parts[rank], batch_size=16) for parts in (tasks, files)]
    own.append(DataLoader(rows, batch_size=16, sampler=tasks[rank].indices))
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        for task in own:
            accuracy(model.module, task)
    dist.destroy_process_group()


main()
