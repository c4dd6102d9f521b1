# kind: missing_backward
# culprits: 2
# ranks: 3
# The same with buffers: the next forward's broadcast meets the others' gradients.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = model(torch.randn(8, 4)).square().mean()
    if rank == 2 and step == 3:
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
