# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# The loss is computed with model.module: DDP never sees the forward pass.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    model.module(torch.randn(8, 4)).square().mean().backward()
#~ mended -1 |    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
