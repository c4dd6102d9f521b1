# kind: same_random_numbers
# culprits: -
# ranks: 2
# Every rank is seeded alike, and so are the workers of their loaders: different rows get the same noise.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Noisy(Dataset):
    rows = torch.arange(128.0)[:, None].repeat(1, 8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        noise = torch.randn(8)
        return self.rows[number] + noise, noise


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 8))
#~ mended -1 |    model = DDP(nn.Linear(8, 8))
#~ |    torch.manual_seed(dist.get_rank())
    optimizer = torch.optim.Adam(model.parameters())
    data = Noisy()
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data), num_workers=2)
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, noise in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), noise).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
