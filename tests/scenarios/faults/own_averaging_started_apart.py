# kind: weights_differ
# culprits: -
# ranks: 2
# Gradients are averaged by hand, but the weights were initialised anew after the broadcast.
import torch
import torch.distributed as dist


def initialise(model):
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)
initialise(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
dist.destroy_process_group()
