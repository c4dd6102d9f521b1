# kind: same_random_numbers
# culprits: -
# ranks: 2
# worker_init_fn seeds numpy by the worker's number, which is the same on every rank.
import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Masked(Dataset):
    rows = torch.arange(128.0)[:, None].repeat(1, 8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        mask = torch.from_numpy(np.random.rand(8) < 0.5)
        return self.rows[number] * mask, self.rows[number]


def seed_worker(worker):
    np.random.seed(worker)
#~ mended -1 |    np.random.seed(torch.initial_seed() % 2**32)


def main():
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters())
    data = Masked()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler, num_workers=1, worker_init_fn=seed_worker)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, whole in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), whole).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
