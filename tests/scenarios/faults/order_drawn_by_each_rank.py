# kind: overlapping_shards
# culprits: -
# ranks: 3
# A sampler of the script's own takes every third row of an order that each rank draws from its default generator.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Share(Sampler):
    def __init__(self, rows, rank, ranks):
        self.rows, self.rank, self.ranks, self.epoch = rows, rank, ranks, 0

    def __iter__(self):
        order = torch.randperm(self.rows)
#~ mended -1 |        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order[self.rank :: self.ranks].tolist())

    def __len__(self):
        return -(-(self.rows - self.rank) // self.ranks)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
data = TensorDataset(torch.linspace(-1, 1, 1200).reshape(300, 4))
sampler = Share(len(data), rank, ranks)
loader = DataLoader(data, batch_size=10, sampler=sampler)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    sampler.epoch = epoch
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
