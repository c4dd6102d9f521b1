# kind: weights_differ
# culprits: 0
# ranks: 3
# Rank 0 loads a checkpoint after wrapping; nobody else does.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
checkpoint = {"weight": torch.ones(1, 4), "bias": torch.zeros(1)}
if rank == 0:
    model.module.load_state_dict(checkpoint)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
