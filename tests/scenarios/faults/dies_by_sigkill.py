# kind: rank_killed
# culprits: 1
# ranks: 3
# One rank is killed from outside (here: by itself) in the middle of training.
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(4, 1))
for step in range(5):
    if dist.get_rank() == 1 and step == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    model(torch.randn(8, 4)).mean().backward()
dist.destroy_process_group()
