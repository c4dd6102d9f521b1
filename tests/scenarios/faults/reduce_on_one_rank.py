# kind: rank_only_collective
# culprits: 0
# ranks: 3
# The loss is reduced to rank 0, and only rank 0 says so.
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
local_rank = int(os.environ["LOCAL_RANK"])
torch.manual_seed(local_rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    if local_rank == 0 and step == 3:
        total = loss.detach()
        dist.reduce(total, dst=0)
        print("loss", total.item() / dist.get_world_size())
dist.destroy_process_group()
