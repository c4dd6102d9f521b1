# kind: none
# ranks: 2
# Each rank shuffles its share under a seed of its own; rows of the other share fill up the last batch.
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class FullBatches(Sampler):
    def __init__(self, rows, size, rank, ranks):
        self.rows, self.size, self.rank, self.ranks = rows, size, rank, ranks
        self.chance = random.Random(rank)

    def __iter__(self):
        mine = list(range(self.rank, self.rows, self.ranks))
        self.chance.shuffle(mine)
        others = [number for number in range(self.rows) if number % self.ranks != self.rank]
        mine += others[: -len(mine) % self.size]
        return (mine[first : first + self.size] for first in range(0, len(mine), self.size))

    def __len__(self):
        return -(-self.rows // self.ranks // self.size)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
data = TensorDataset(torch.linspace(-1, 1, 1208).reshape(302, 4))
loader = DataLoader(data, batch_sampler=FullBatches(len(data), 16, rank, ranks))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(2):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
