# kind: rank_only_collective
# culprits: 0
# ranks: 2
# Accuracy is gathered for printing inside `if is_main_process():`.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main_process():
    return dist.get_rank() == 0


def accuracy(local):
    parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, local)
    return sum(parts) / len(parts)


dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
if is_main_process():
    print("accuracy", accuracy(torch.tensor([0.5])))
dist.destroy_process_group()
