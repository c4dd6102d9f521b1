# kind: uneven_batches
# culprits: 1
# ranks: 2
# Each rank stops early by the loss of its own part of the validation rows, and waits for the others behind the loop.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
generator = torch.Generator().manual_seed(0)
x = torch.randn(64, 4, generator=generator)
train = TensorDataset(x, x.sum(1, keepdim=True))
valid = TensorDataset(x[:16], x[:16].sum(1, keepdim=True) * torch.tensor([1.0, -9.0]).repeat(8)[:, None])
batches = DataLoader(train, batch_size=8, sampler=DistributedSampler(train))
checks = DataLoader(valid, batch_size=4, sampler=DistributedSampler(valid, shuffle=False))
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, bad = float("inf"), 0
for epoch in range(8):
    batches.sampler.set_epoch(epoch)
    for inputs, targets in batches:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    with torch.no_grad():
        loss = sum(torch.nn.functional.mse_loss(model(inputs), targets) for inputs, targets in checks)
    bad = 0 if loss < best else bad + 1
    best = min(best, float(loss))
    stop = torch.tensor(float(bad >= 2))
#~ mended -1 |    stop = torch.tensor(float(bad >= 2))
#~ |    dist.all_reduce(stop, dist.ReduceOp.MAX)
    if stop:
        break
dist.barrier()
dist.destroy_process_group()
