# kind: same_random_numbers
# culprits: -
# ranks: 2
# Every rank is seeded alike and draws noise for its own rows: the noise is the same on all of them.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    clean = TensorDataset(torch.randn(128, 8))
    loader = DataLoader(clean, batch_size=16, sampler=DistributedSampler(clean))
    model = DDP(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)))
#~ mended -1 |    model = DDP(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)))
#~ |    torch.manual_seed(dist.get_rank())
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for (x,) in loader:
            noise = 0.5 * torch.randn_like(x)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x + noise), noise).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
