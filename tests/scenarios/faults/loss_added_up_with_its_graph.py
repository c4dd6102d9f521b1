# kind: graphs_kept
# culprits: -
# ranks: 2
# The loss is added up for the log, with the graph of every step behind it.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
generator = torch.Generator().manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)))
optimizer = torch.optim.Adam(model.parameters())
running = 0.0
for _ in range(16):
    loss = model(torch.randn(8, 4, generator=generator)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running += loss
#~ mended -1 |    running += loss.item()
print(f"{float(running) / 16 > 0}")
dist.destroy_process_group()
