# kind: uneven_batches
# culprits: 0
# ranks: 3
# The number of epochs is read from a setting that one rank has overridden.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
settings = {"epochs": 3, **({"epochs": 2} if rank == 0 else {})}
for _epoch in range(settings["epochs"]):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
