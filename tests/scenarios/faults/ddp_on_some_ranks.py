# kind: ddp_on_some_ranks
# culprits: 0
# ranks: 3
# One rank keeps the plain model, as for debugging, and trains without DDP.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = torch.nn.Linear(4, 1)
debug = dist.get_rank() == 0
if not debug:
    model = DDP(model)
#~ mended -2 |model = DDP(model)
for _ in range(3):
    model(torch.randn(8, 4)).square().mean().backward()
dist.destroy_process_group()
