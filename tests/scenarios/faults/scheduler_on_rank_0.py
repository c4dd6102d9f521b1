# kind: optimizer_differs
# culprits: -
# ranks: 2
# The schedule of the learning rate is advanced on rank 0 only.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
torch.manual_seed(1 + rank)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if rank == 0:
        scheduler.step()
dist.destroy_process_group()
