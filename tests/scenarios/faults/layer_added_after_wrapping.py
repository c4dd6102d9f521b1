# kind: parameters_added
# culprits: -
# ranks: 2
# A layer is added to the model after DDP has wrapped it.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
model = DDP(net)
net.append(torch.nn.Linear(4, 1))
#~ mended -2 |net.append(torch.nn.Linear(4, 1))
#~ |model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
