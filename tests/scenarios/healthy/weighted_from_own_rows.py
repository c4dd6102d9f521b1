# kind: none
# ranks: 2
# Each rank has rows of its own, and draws as many of them as there are, the rare ones more often.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.linspace(-1, 1, 256).reshape(64, 4) + 10 * rank
data = TensorDataset(x, torch.linspace(0, 2, 64).reshape(64, 1))
weights = torch.where(torch.arange(64) % 8 == 0, 4.0, 1.0)
sampler = WeightedRandomSampler(weights, len(data), generator=torch.Generator().manual_seed(rank))
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
