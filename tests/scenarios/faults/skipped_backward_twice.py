# kind: missing_backward
# culprits: 0
# ranks: 2
# Rank 0 leaves out two losses that look too large.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(7):
    loss = model(torch.randn(8, 4)).square().mean()
    too_large = rank == 0 and step in (2, 4)
    if too_large:
        print("skipping an outlier")
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
