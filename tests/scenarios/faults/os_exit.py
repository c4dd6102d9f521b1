# kind: rank_exited
# culprits: 0
# ranks: 3
# A library's emergency exit ends one process without an exception.
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(4, 1))
for step in range(5):
    loss = model(torch.randn(8, 4)).mean()
    if dist.get_rank() == 0 and step == 3:
        os._exit(7)
    loss.backward()
dist.destroy_process_group()
