# kind: none
# ranks: 2
# In each epoch, every rank draws a half of the rows by chance, none of them twice; later a third.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
data = TensorDataset(torch.linspace(-1, 1, 1200).reshape(300, 4))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for part in (2, 3):
    sampler = RandomSampler(data, num_samples=len(data) // part)
    for (x,) in DataLoader(data, batch_size=10, sampler=sampler):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
