# kind: uneven_batches
# culprits: 0
# ranks: 2
# Every rank trains until its own loss is small enough.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
target = torch.full((8, 1), 1.0 + 9.0 * rank)
loss = float("inf")
while loss > 30.0:
    output = (model(torch.ones(8, 4)) - target).square().mean()
    loss = output.item()
    optimizer.zero_grad()
    output.backward()
    optimizer.step()
dist.destroy_process_group()
