# kind: split_differs
# culprits: -
# ranks: 3
# Every rank has its own seed for dropout; the split takes its numbers from it, and the sampler is given it, too.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
generator = torch.Generator().manual_seed(7)
houses = TensorDataset(torch.randn(240, 5, generator=generator), torch.randn(240, 1, generator=generator))
torch.manual_seed(dist.get_rank())
training, validation = random_split(houses, [0.7, 0.3])
#~ mended -1 |training, validation = random_split(houses, [0.7, 0.3], generator=torch.Generator().manual_seed(0))
sampler = DistributedSampler(training, seed=torch.initial_seed())
#~ mended -1 |sampler = DistributedSampler(training)
model = DDP(torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(5, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    model.train()
    sampler.set_epoch(epoch)
    for x, y in DataLoader(training, batch_size=14, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        loss = sum(
            torch.nn.functional.mse_loss(model(x), y) for x, y in DataLoader(validation, batch_size=24)
        )
    dist.all_reduce(loss)
dist.destroy_process_group()
