# kind: copies_differ
# culprits: 0
# ranks: 2
# The average of the weights is updated on rank 0 alone, and then each rank evaluates its rows with its own copy.
import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
average = copy.deepcopy(net).requires_grad_(False)
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if rank == 0:
#~ mended -1 |    if average is not None:
        for old, new in zip(average.parameters(), model.module.parameters(), strict=True):
            old.lerp_(new.detach(), 0.1)
loss = average(torch.randn(8, 4)).square().mean()
dist.all_reduce(loss)
dist.destroy_process_group()
