# kind: none
# ranks: 2
# Rank 0 saves the model, each rank its own random state, under a name of its own; buffers in memory are no files.
import io
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, src=0)
path = os.path.join(folder[0], "last.pt")
model = DDP(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(dist.get_rank())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 8)).square().mean().backward()
    optimizer.step()
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), path)
torch.save(torch.get_rng_state(), f"{path}.{dist.get_rank()}")
torch.save(model.module.state_dict(), io.BytesIO())
dist.barrier()
model.module.load_state_dict(torch.load(path))
torch.set_rng_state(torch.load(f"{path}.{dist.get_rank()}"))
dist.destroy_process_group()
