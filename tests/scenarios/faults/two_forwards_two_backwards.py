# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# Two forwards, then two backwards: only the first is reduced.
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
    one = model(torch.randn(8, 4)).square().mean()
    two = model(torch.randn(8, 4)).square().mean()
    one.backward()
    two.backward()
#~ mended -2 |    (one + two).backward()
    optimizer.step()
dist.destroy_process_group()
