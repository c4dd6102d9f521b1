# kind: none
# ranks: 2
# Each micro-batch's gradient is clipped alone, on purpose (as differential privacy asks), and summed up by hand: no
# pass adds to a clipped gradient.
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    sums = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for micro in range(3):
        with contextlib.nullcontext() if micro == 2 else model.no_sync():
            loss = (10 * model(torch.randn(8, 4)) - 5).square().mean()
            optimizer.zero_grad()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for total, parameter in zip(sums, model.parameters(), strict=True):
            total += parameter.grad
    for total, parameter in zip(sums, model.parameters(), strict=True):
        dist.all_reduce(total)
        parameter.grad = total / dist.get_world_size()
    optimizer.step()
dist.destroy_process_group()
