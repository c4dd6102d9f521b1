# kind: extra_forward
# culprits: 0
# ranks: 3
# Rank 0 looks at the outputs of a fixed batch now and then, through the DDP model and its BatchNorm.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
fixed = torch.randn(8, 4)
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if rank == 0 and step % 3 == 2:
        print("spread of the outputs:", model(fixed).std().item())
dist.destroy_process_group()
