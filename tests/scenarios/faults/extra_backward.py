# kind: extra_backward
# culprits: 1
# ranks: 3
# One rank trains on its last batch once more.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
if rank == 1:
    model(torch.randn(8, 4)).square().mean().backward()
dist.destroy_process_group()
#~ mended -2 |    with model.no_sync():
#~ |        model(torch.randn(8, 4)).square().mean().backward()
#~ |dist.destroy_process_group()
