# kind: gradients_not_averaged
# culprits: -
# ranks: 4
# One DDP model per pair of ranks; the loop calls model.module, so that no pair averages anything.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
torch.manual_seed(rank // 2)
model = DDP(torch.nn.Linear(4, 2), process_group=pairs[rank // 2])
optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
torch.manual_seed(10 + rank)
for _ in range(5):
    optimizer.zero_grad()
    model.module(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
