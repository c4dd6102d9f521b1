# kind: none
# ranks: 2
# The data is dealt to four virtual ranks, so that the batches stay the same on another machine: each rank draws two.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SHARES = 4
dist.init_process_group("gloo")
rank, each = dist.get_rank(), SHARES // dist.get_world_size()
torch.manual_seed(rank)
generator = torch.Generator().manual_seed(0)
data = TensorDataset(torch.randn(64, 4, generator=generator), torch.randn(64, 1, generator=generator))
samplers = [
    DistributedSampler(data, num_replicas=SHARES, rank=share)
    for share in range(rank * each, (rank + 1) * each)
]
loaders = [DataLoader(data, batch_size=4, sampler=sampler) for sampler in samplers]
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for sampler in samplers:
        sampler.set_epoch(epoch)
    for batches in zip(*loaders, strict=True):
        x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
