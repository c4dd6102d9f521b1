# kind: none
# ranks: 2
# Rank 1 trains a probe of its own on the features, and steps it inside backward(); the DDP model is stepped as ever.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def step_inside_backward(module, lr):
    def step(parameter):
        optimizers[parameter].step()
        parameter.grad = None

    optimizers = {p: torch.optim.SGD([p], lr=lr) for p in module.parameters()}
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(step)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(6, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
probe = torch.nn.Linear(4, 1)
if rank == 1:
    step_inside_backward(probe, 0.05)
for _ in range(6):
    features = model(torch.randn(8, 6))
    loss = features.square().mean()
    if rank == 1:
        loss = loss + (probe(features.detach()) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
