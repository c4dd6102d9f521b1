# kind: none
# ranks: 2
# The ranks accumulate different numbers of micro-batches under no_sync, and step together.
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
    for _ in range(1 + 2 * rank):
        with model.no_sync():
            model(torch.randn(4, 4)).square().mean().backward()
    model(torch.randn(4, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
