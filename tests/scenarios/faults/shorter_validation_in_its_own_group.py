# kind: skipped_collective
# culprits: 0
# ranks: 2
# Metrics have a group of their own. Rank 0 has a validation batch less and is in the next epoch when rank 1 adds up.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@torch.no_grad()
def evaluate(model, batches, group):
    total = 0.0
    for inputs, targets in batches:
        error = (model.module(inputs) - targets).abs().mean()
        dist.all_reduce(error, group=group)
        total += float(error)
    return total / len(batches)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
metrics = dist.new_group()
torch.manual_seed(0)
x = torch.randn(60, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
train = DataLoader(data, batch_size=5, sampler=DistributedSampler(data))
rows = list(range(rank, 30, ranks))
rows = rows[3:] if rank == 0 else rows
#~ mended -1 |rows = rows[:12]
valid = DataLoader(torch.utils.data.Subset(data, rows), batch_size=3)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    train.sampler.set_epoch(epoch)
    for inputs, targets in train:
        optimizer.zero_grad()
        torch.nn.functional.l1_loss(model(inputs), targets).backward()
        optimizer.step()
    error = evaluate(model, valid, metrics)
dist.destroy_process_group()
