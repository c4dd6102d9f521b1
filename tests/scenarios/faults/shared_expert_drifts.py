# kind: gradients_not_averaged
# culprits: -
# ranks: 4
# An encoder over all ranks is sound; the expert that each pair of ranks shares is only trained under no_sync.
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
    hidden = encoder(torch.randn(8, 4)).relu()
    with expert.no_sync():
        expert(hidden).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
