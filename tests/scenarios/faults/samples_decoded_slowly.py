# kind: slow_input
# culprits: -
# ranks: 2
# Every rank decodes its samples itself, in each epoch anew, and the model waits for them.
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


def decode(number):
    time.sleep(0.1)
    return torch.full((4,), float(number)), torch.tensor([float(number % 2)])


class Decoded(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, number):
        return decode(number)


dist.init_process_group("gloo")
rows = Decoded()
#~ mended -1 |rows = [decode(number) for number in range(24)]
loader = DataLoader(rows, batch_size=3, sampler=DistributedSampler(rows))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(7):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
