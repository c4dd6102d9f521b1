# kind: rank_only_collective
# culprits: 0
# ranks: 3
# Rank 0 saves a checkpoint and waits for the others in a barrier that only rank 0 runs.
import io

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if rank == 0 and step == 1:
        torch.save(model.module.state_dict(), io.BytesIO())
        dist.barrier()
dist.destroy_process_group()
