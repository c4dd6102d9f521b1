# kind: uneven_batches
# culprits: 1
# ranks: 2
# islice gives one rank fewer batches.
from itertools import islice

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = (torch.randn(8, 4) for _ in range(100))
for x in islice(batches, 6 if rank == 0 else 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
#~ mended -4 |with model.join():
#~ |    for x in islice(batches, 6 if rank == 0 else 4):
#~ |        optimizer.zero_grad()
#~ |        model(x).square().mean().backward()
#~ |        optimizer.step()
dist.destroy_process_group()
