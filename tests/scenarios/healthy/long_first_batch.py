# kind: none
# ranks: 2
# One rank fills a cache before its first batch, while the other one already waits in backward.
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def batches(rank):
    for number in range(4):
        if number == 0 and rank == 1:
            until = time.monotonic() + 0.7
            while time.monotonic() < until:
                torch.randn(64, 64).sort()
        yield torch.randn(8, 4)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in batches(dist.get_rank()):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
