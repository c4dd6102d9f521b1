# kind: none
# ranks: 2
# Every rank evaluates its shard, and rank 0 in addition all of the small test set, without a DistributedSampler.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
torch.manual_seed(0)
training, validation, test = (
    TensorDataset(torch.randn(rows, 4), torch.randn(rows, 1)) for rows in (64, 32, 24)
)
sampler = DistributedSampler(training)
shard = DataLoader(validation, batch_size=8, sampler=DistributedSampler(validation, shuffle=False))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loss_on(loader):
    with torch.no_grad():
        return torch.stack([torch.nn.functional.mse_loss(model.module(x), y) for x, y in loader]).mean()


for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(training, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"test {loss_on(DataLoader(test, batch_size=8)):.3f}")
    dist.all_reduce(loss_on(shard))
dist.destroy_process_group()
