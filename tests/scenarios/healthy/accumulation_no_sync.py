# kind: none
# ranks: 2
# Gradient accumulation under no_sync, reduced at the last micro-batch.
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    for micro in range(3):
        with contextlib.nullcontext() if micro == 2 else model.no_sync():
            (model(torch.randn(8, 4)).square().mean() / 3).backward()
    optimizer.step()
dist.destroy_process_group()
