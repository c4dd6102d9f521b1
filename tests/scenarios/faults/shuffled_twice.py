# kind: sampler_and_shuffle
# culprits: -
# ranks: 2
# A DistributedSampler was put into a loader that shuffles.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = TensorDataset(torch.randn(64, 4))
sampler = DistributedSampler(rows, shuffle=True)
loader = DataLoader(rows, batch_size=8, shuffle=True, sampler=sampler)
#~ mended -1 |loader = DataLoader(rows, batch_size=8, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for (x,) in loader:
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
