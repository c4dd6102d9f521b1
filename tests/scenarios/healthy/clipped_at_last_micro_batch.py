# kind: none
# ranks: 2
# The norm is logged after every micro-batch, with a limit that cuts nothing; only what all ranks have averaged is cut.
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
        last = micro == 2
        with contextlib.nullcontext() if last else model.no_sync():
            (10 * model(torch.randn(8, 4)) - 5).square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0 if last else float("inf"))
        print(f"micro-batch {micro}: norm {norm:.2f}")
    optimizer.step()
dist.destroy_process_group()
