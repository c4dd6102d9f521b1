# kind: nothing_distributed
# culprits: -
# ranks: 2
# The process group is made where there are several GPUs, and here are none: every rank trains alone.
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

distributed = torch.cuda.device_count() > 1
if distributed:
    dist.init_process_group("nccl")
torch.manual_seed(int(os.environ.get("RANK", "0")))
model = torch.nn.Linear(4, 1)
if distributed:
    model = DDP(model)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print("done")
