# kind: clipped_before_averaging
# culprits: -
# ranks: 2
# The gradients of each micro-batch are clipped, also those under no_sync that no other rank knows of yet.
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    for micro in range(3):
        with contextlib.nullcontext() if micro == 2 else model.no_sync():
            (10 * model(torch.randn(8, 4)) - 5).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
#~ mended -1 |    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
dist.destroy_process_group()
