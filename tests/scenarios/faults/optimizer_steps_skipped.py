# kind: optimizer_steps_differ
# culprits: 1
# ranks: 3
# A rank leaves out its step where its own loss is high.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(20):
    x = torch.randn(8, 4) * (10 if rank == 1 and step % 7 == 3 else 1)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    if x.abs().max() < 8:
#~ mended -1 |    largest = x.abs().max()
#~ |    dist.all_reduce(largest, dist.ReduceOp.MAX)
#~ |    if largest < 8:
        optimizer.step()
dist.destroy_process_group()
