# kind: no_process_group
# culprits: -
# ranks: 2
# The last line asks which rank this is, and the process group is gone.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(4):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
if dist.get_rank() == 0:
    print("trained")
#~ mended -3 |if dist.get_rank() == 0:
#~ |    print("trained")
#~ |dist.destroy_process_group()
