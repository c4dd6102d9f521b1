# kind: unlike_datasets
# culprits: -
# ranks: 2
# Every rank takes its share of the files, and a DistributedSampler deals out this share once more.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
data = TensorDataset(torch.randn(128, 4))
share = Subset(data, range(rank, len(data), size))
sampler = DistributedSampler(share)
loader = DataLoader(share, batch_size=8, sampler=sampler)
#~ mended -2 |loader = DataLoader(share, batch_size=8)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)
#~ mended -1 |    pass
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
