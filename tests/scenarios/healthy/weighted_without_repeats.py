# kind: none
# ranks: 2
# Rare rows come more often, none twice in an epoch: each rank draws a half of the rows with its own generator.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
data = TensorDataset(torch.linspace(-1, 1, 256).reshape(64, 4), torch.linspace(0, 2, 64).reshape(64, 1))
weights = torch.where(torch.arange(64) % 8 == 0, 4.0, 1.0)
generator = torch.Generator().manual_seed(rank)
sampler = WeightedRandomSampler(weights, len(data) // world, replacement=False, generator=generator)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
