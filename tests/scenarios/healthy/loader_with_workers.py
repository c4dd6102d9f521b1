# kind: none
# ranks: 2
# start: spawn
# The loader reads in two processes of its own, and is slow.
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Slow(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        time.sleep(0.03)
        return torch.full((4,), float(index)), torch.tensor([float(index % 2)])


dist.init_process_group("gloo")
sampler = DistributedSampler(Slow())
loader = DataLoader(Slow(), batch_size=4, sampler=sampler, num_workers=2)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
