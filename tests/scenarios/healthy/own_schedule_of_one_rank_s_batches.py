# kind: none
# ranks: 2
# Warm-up and cosine are a function of the script's own, made for the steps of one rank.
import math

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def warmup_cosine(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = torch.Generator().manual_seed(0)
data = TensorDataset(torch.randn(96, 4, generator=generator), torch.randn(96, 1, generator=generator))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = warmup_cosine(optimizer, 2, 3 * len(loader))
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()
dist.destroy_process_group()
