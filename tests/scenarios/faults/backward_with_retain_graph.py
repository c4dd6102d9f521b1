# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# Two losses of one forward, each with a backward of its own.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    score = model(torch.randn(8, 4))
    score.square().mean().backward(retain_graph=True)
    score.abs().mean().backward()
    optimizer.step()
dist.destroy_process_group()
