# kind: none
# ranks: 3
# Rank 0 alone writes a file for a while, without a collective; all meet in a barrier afterwards.
import io
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), io.BytesIO())
    time.sleep(1.5)
dist.barrier()
dist.destroy_process_group()
