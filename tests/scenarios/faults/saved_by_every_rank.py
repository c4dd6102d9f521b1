# kind: same_file
# culprits: -
# ranks: 2
# Every rank saves the checkpoint under the same name, and goes on from it.
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
generator = torch.Generator().manual_seed(dist.get_rank())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 8, generator=generator)).square().mean().backward()
    optimizer.step()
torch.save(model.module.state_dict(), path)
#~ mended -1 |if dist.get_rank() == 0:
#~ |    torch.save(model.module.state_dict(), path)
dist.barrier()
model.module.load_state_dict(torch.load(path))
dist.destroy_process_group()
