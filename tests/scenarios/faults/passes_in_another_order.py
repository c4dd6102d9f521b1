# kind: passes_in_another_order
# culprits: 1
# ranks: 2
# Rank 0 makes a backward pass for each forward pass, and rank 1 all forward passes first.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 4))
parts = [torch.randn(8, 4) for _ in range(2)]
if rank == 0:
#~ mended -1 |if True:
    for x in parts:
        model(x).sum().backward()
else:
    losses = [model(x).sum() for x in parts]
    for loss in losses:
        loss.backward()
dist.destroy_process_group()
