# kind: parameters_outside
# culprits: -
# ranks: 2
# The classifier is trained with the model, and is not part of what DDP wraps.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
backbone = DDP(torch.nn.Linear(4, 4))
torch.manual_seed(0)
head = torch.nn.Linear(4, 1)
#~ mended -1 |head = DDP(torch.nn.Linear(4, 1))
torch.manual_seed(1 + rank)
optimizer = torch.optim.Adam([*backbone.parameters(), *head.parameters()])
for _ in range(4):
    optimizer.zero_grad()
    head(backbone(torch.randn(8, 4)).relu()).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
