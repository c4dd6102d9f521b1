# kind: rows_left_out
# culprits: -
# ranks: 2
# Nothing is shuffled, and drop_last leaves the same rows of each share out in every epoch.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = torch.Generator().manual_seed(0)
data = TensorDataset(torch.randn(60, 4, generator=generator), torch.randn(60, 1, generator=generator))
sampler = DistributedSampler(data, shuffle=False)
loader = DataLoader(data, batch_size=8, sampler=sampler, drop_last=True)
#~ mended -1 |loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
