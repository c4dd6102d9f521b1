# kind: missing_backward
# culprits: 2
# ranks: 3
# The last batch of one rank is left out after its forward.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = 5
for step in range(steps):
    loss = model(torch.randn(8, 4)).square().mean()
    if rank == 2 and step == steps - 1:
        break
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
