# kind: none
# ranks: 2
# Rank 1 finds no cache and computes what is in it, within `except`: its collectives there are met by all.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def statistics(rank):
    cache = {0: 2.0}
    own = torch.zeros(1)
    try:
        own += cache[rank]
        dist.all_reduce(own)
    except KeyError:
        own += torch.randn(8).mean()
        dist.all_reduce(own)
    return own / dist.get_world_size()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
mean = statistics(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    (model(torch.randn(2, 4)) - mean).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
