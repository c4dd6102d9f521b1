# kind: out_of_memory
# culprits: 1
# ranks: 2
# One rank's batch does not fit into memory; nobody catches it.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(4, 1))
for step in range(4):
    length = 1 << 46 if dist.get_rank() == 1 and step == 2 else 8
#~ mended -1 |    length = 16 if dist.get_rank() == 1 and step == 2 else 8
    model(torch.ones(length, 4)).mean().backward()
dist.destroy_process_group()
