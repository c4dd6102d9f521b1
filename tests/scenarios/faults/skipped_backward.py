# kind: missing_backward
# culprits: 1
# ranks: 2
# A bad batch on one rank is left out by `continue`, backward and all.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(8, 4)
    if rank == 1 and step == 3:
        x[0, 0] = float("nan")
    loss = model(x).square().mean()
    if not torch.isfinite(loss):
        continue
#~ mended -2 |    if not torch.isfinite(loss):
#~ |        loss = torch.nan_to_num(model.module.weight * 0).sum() + 0 * torch.nan_to_num(loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
