# kind: rank_only_collective
# culprits: 0
# ranks: 2
# Rank 0 alone evaluates through the DDP model, whose BatchNorm makes forward a collective.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
if rank == 0:
    model.eval()
    with torch.no_grad():
        print("validation", model(torch.randn(8, 4)).square().mean() >= 0)
dist.destroy_process_group()
