# kind: none
# ranks: 4
# An encoder that all ranks share, and an expert for each pair of ranks: two DDP models over groups of different sizes.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
torch.manual_seed(rank)
encoder = DDP(torch.nn.Linear(4, 4))
expert = DDP(torch.nn.Linear(4, 4), process_group=pairs[rank // 2])
optimizer = torch.optim.SGD([*encoder.parameters(), *expert.parameters()], lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    expert(encoder(torch.randn(8, 4)).relu()).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
