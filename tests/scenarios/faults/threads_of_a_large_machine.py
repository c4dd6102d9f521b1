# kind: too_many_threads
# culprits: -
# ranks: 2
# Each rank takes as many threads as the machine has on which the script was written.
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(4 * (os.cpu_count() or 1))
#~ mended -1 |torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
