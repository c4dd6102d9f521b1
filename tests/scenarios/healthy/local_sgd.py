# kind: none
# ranks: 2
# Weights are averaged every third step on purpose: between, they differ.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    with model.no_sync():
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if step % 3 == 2:
        with torch.no_grad():
            for parameter in model.parameters():
                dist.all_reduce(parameter, op=dist.ReduceOp.SUM)
                parameter /= dist.get_world_size()
dist.destroy_process_group()
