# kind: same_random_numbers
# culprits: -
# ranks: 2
# Every rank is seeded alike, and Python's random decides in the dataset how a row is augmented; no workers.
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Augmented(Dataset):
    rows = torch.arange(128.0)[:, None].repeat(1, 8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        row = self.rows[number]
        if random.random() < 0.5:
            row = row.flip(0)
        return row * random.uniform(0.8, 1.2), row


def seed_all(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def main():
    dist.init_process_group("gloo")
    seed_all(0)
    model = DDP(nn.Linear(8, 8))
#~ mended -1 |    model = DDP(nn.Linear(8, 8))
#~ |    seed_all(dist.get_rank())
    optimizer = torch.optim.Adam(model.parameters())
    data = Augmented()
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, row in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), row).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
