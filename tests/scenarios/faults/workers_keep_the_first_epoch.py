# kind: same_order_every_epoch
# culprits: -
# ranks: 2
# The stream shuffles by its epoch; the workers stay alive, and their copy of the stream is never told of a new one.
import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Clicks(IterableDataset):
    def __init__(self):
        self.current_epoch = 0
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def __iter__(self):
        numbers = list(range(80))
        random.Random(self.current_epoch).shuffle(numbers)
        for number in numbers[self.rank :: self.ranks]:
            yield torch.tensor([number, number % 7, 1.0]) / 80


dist.init_process_group("gloo")
torch.manual_seed(0)
data = Clicks()
loader = DataLoader(data, batch_size=8, num_workers=1, persistent_workers=True)
model = DDP(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    data.current_epoch = epoch
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
