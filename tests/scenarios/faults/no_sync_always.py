# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# Accumulation under no_sync that never leaves it.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    with model.no_sync():
        for _ in range(3):
            (model(torch.randn(8, 4)).square().mean() / 3).backward()
#~ mended -2 |        for _ in range(2):
#~ |            (model(torch.randn(8, 4)).square().mean() / 3).backward()
#~ |    (model(torch.randn(8, 4)).square().mean() / 3).backward()
    optimizer.step()
dist.destroy_process_group()
