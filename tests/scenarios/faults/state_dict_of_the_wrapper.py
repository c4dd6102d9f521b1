# kind: state_dict_names
# ranks: 2
# Saved from the DDP wrapper, loaded into the model before it is wrapped.
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, src=0)
path = os.path.join(folder[0], "weights.pt")
ddp = DDP(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)))
ddp(torch.randn(8, 4)).sum().backward()
if dist.get_rank() == 0:
    torch.save(ddp.state_dict(), path)
#~ mended -1 |    torch.save(ddp.module.state_dict(), path)
dist.barrier()
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
net.load_state_dict(torch.load(path))
dist.destroy_process_group()
