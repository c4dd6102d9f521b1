# kind: none
# ranks: 2
# Every step takes long, on all ranks, and a third of it is for its input.
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Decoded(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, number):
        time.sleep(0.1)
        return torch.full((4,), float(number)), torch.tensor([float(number % 2)])


dist.init_process_group("gloo")
loader = DataLoader(Decoded(), sampler=DistributedSampler(Decoded()))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        time.sleep(0.2)  # what a large model takes
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
