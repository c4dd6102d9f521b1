# kind: extra_backward
# culprits: 0
# ranks: 3
# An extra step for hard samples on rank 0 only, in a model with BatchNorm.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train_on(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


for step in range(5):
    train_on(torch.randn(8, 4))
    if rank == 0 and step == 2:
        train_on(torch.randn(4, 4))
dist.destroy_process_group()
