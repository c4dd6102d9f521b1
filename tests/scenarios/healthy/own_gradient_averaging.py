# kind: none
# ranks: 3
# Data parallelism by hand: weights broadcast once, gradients averaged in every step.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    sizes = [p.numel() for p in model.parameters()]
    for parameter, piece in zip(model.parameters(), flat.split(sizes), strict=True):
        parameter.grad = piece.view_as(parameter)
    optimizer.step()
dist.destroy_process_group()
