# kind: rank_only_collective
# culprits: 1
# ranks: 4
# A rank that has seen a bad batch waits at a barrier, so that all ranks look at it; the others know nothing of it.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
bad_batches = {1: 3}
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if bad_batches.get(rank) == step:
        dist.barrier()
dist.destroy_process_group()
