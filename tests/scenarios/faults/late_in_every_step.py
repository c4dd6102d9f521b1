# kind: slow_rank
# culprits: 1
# ranks: 3
# One rank asks a slow disk in every step, and all others wait for it.
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(28):
    if dist.get_rank() == 1:
        time.sleep(0.3)
#~ mended -2 |    pass
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
