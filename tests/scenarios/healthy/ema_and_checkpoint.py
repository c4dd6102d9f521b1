# kind: none
# ranks: 2
# Averaged weights, and a checkpoint of rank 0 with a barrier.
import copy
import io

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = copy.deepcopy(model.module)
for _step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(average.parameters(), model.module.parameters(), strict=True):
            old.lerp_(new, 0.1)
file = io.BytesIO()
if rank == 0:
    torch.save(model.state_dict(), file)
dist.barrier()
if rank == 0:
    file.seek(0)
    model.load_state_dict(torch.load(file))
dist.destroy_process_group()
