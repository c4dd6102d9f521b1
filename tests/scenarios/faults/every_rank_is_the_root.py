# kind: different_roots
# culprits: -
# ranks: 2
# timeout: 3
# The weights are broadcast from the rank itself, so nobody receives any.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = torch.nn.Linear(4, 1)
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
dist.destroy_process_group()
