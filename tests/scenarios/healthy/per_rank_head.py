# kind: parameters_outside
# culprits: -
# ranks: 2
# A shared encoder and a head of its own for each rank (personalised learning), in one optimizer: worth knowing.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(100 + rank)
encoder = DDP(torch.nn.Linear(4, 4))
head = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    head(encoder(torch.randn(8, 4)).relu()).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
