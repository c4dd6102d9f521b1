# kind: none
# ranks: 2
# Validation on shards without padding; every rank also scores the samples that are left over.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


@torch.no_grad()
def score(model, loader, total):
    for x, y in loader:
        total += torch.tensor([(model(x).argmax(1) == y).sum(), len(y)])


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
data = TensorDataset(torch.randn(41, 6), torch.randint(0, 3, (41,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=6, sampler=sampler)
own = DistributedSampler(data, shuffle=False, drop_last=True)
validation = DataLoader(data, batch_size=5, sampler=own)
left_over = DataLoader(Subset(data, range(len(own) * size, len(data))), batch_size=5)
model = DDP(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
for epoch in range(2):
    sampler.set_epoch(epoch)
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    total = torch.zeros(2)
    score(model, validation, total)
    dist.all_reduce(total)
    score(model, left_over, total)
    schedule.step()
assert total[1] == 41
dist.destroy_process_group()
