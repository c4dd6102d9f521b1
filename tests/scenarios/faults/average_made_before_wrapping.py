# kind: copies_differ
# culprits: -
# ranks: 2
# The average of the weights begins as a copy made before DDP has given all ranks the same weights.
import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
average = copy.deepcopy(net)
model = DDP(net)
#~ mended -2 |model = DDP(net)
#~ |average = copy.deepcopy(model.module)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(average.parameters(), model.module.parameters(), strict=True):
            old.lerp_(new, 0.01)
dist.destroy_process_group()
