# kind: none
# ranks: 2
# Training and validation are split alike under seeds of their own; every rank evaluates its shard, of both.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
generator = torch.Generator().manual_seed(7)
data = TensorDataset(torch.randn(160, 5, generator=generator), torch.randn(160, 1, generator=generator))
torch.manual_seed(dist.get_rank())
training, validation = random_split(data, [0.75, 0.25], generator=torch.Generator().manual_seed(1))
sampler = DistributedSampler(training)
# Evaluated in order: what one rank looks at here, another one has often trained on.
looks = [
    DataLoader(part, 10, sampler=DistributedSampler(part, shuffle=False)) for part in (training, validation)
]
model = DDP(torch.nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(training, batch_size=10, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        total = torch.stack(
            [torch.nn.functional.mse_loss(model(x), y) for look in looks for x, y in look]
        ).sum()
    dist.all_reduce(total)
dist.destroy_process_group()
