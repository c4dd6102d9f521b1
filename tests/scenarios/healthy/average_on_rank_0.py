# kind: none
# ranks: 2
# Rank 0 keeps an exponential average of the weights and evaluates it; no collective is in it.
import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)))
optimizer = torch.optim.AdamW(model.parameters())
averaged = copy.deepcopy(model.module) if rank == 0 else None
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if averaged is not None:
        with torch.no_grad():
            for mean, current in zip(averaged.parameters(), model.module.parameters(), strict=True):
                mean.lerp_(current, 0.1)
            averaged.eval()(torch.randn(16, 4))
dist.destroy_process_group()
