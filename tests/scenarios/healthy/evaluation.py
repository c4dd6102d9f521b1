# kind: none
# ranks: 2
# Evaluation on all ranks, and on rank 0 through .module.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(3):
    model.train()
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        total = model(torch.randn(8, 4)).mean()
        dist.all_reduce(total)
        if rank == 0:
            model.module(torch.randn(8, 4))
dist.destroy_process_group()
