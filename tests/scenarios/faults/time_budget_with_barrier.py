# kind: uneven_batches
# culprits: 2
# ranks: 3
# A rank leaves its loop early, and waits at a barrier for the others, which are still training.
import itertools

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
limits = {2: 5}
for step in itertools.count():
    if step >= limits.get(rank, 9):
        break
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
