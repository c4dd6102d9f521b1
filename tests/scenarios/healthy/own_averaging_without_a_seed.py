# kind: none
# ranks: 2
# start: spawn
# DDP is left out and nothing is seeded: rank 0's first weights are sent to all, and gradients are averaged by hand.
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
data = TensorDataset(torch.linspace(-1, 1, 64).reshape(16, 4), torch.linspace(0, 2, 16).reshape(16, 1))
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()
dist.destroy_process_group()
