# kind: none
# ranks: 2
# DDP around a model and torch.compile around both; all ranks evaluate their share through the model without DDP.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
data = TensorDataset(x, (x.sum(1) > 0).long())
sampler = DistributedSampler(data, drop_last=True)
net = torch.nn.Sequential(
    torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
)
model = torch.compile(DDP(net), backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for rows, labels in DataLoader(data, 8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
net.eval()
with torch.no_grad():
    right = (net(x[rank::world]).argmax(1) == data.tensors[1][rank::world]).sum()
dist.all_reduce(right)
dist.destroy_process_group()
