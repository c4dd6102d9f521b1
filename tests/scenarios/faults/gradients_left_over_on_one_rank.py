# kind: different_collectives
# culprits: 1
# ranks: 2
# Own averaging of accumulated gradients; behind the loop rank 1 averages what is left, and rank 0 has nothing left.
import torch
import torch.distributed as dist


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 4) if rank == 0 else torch.randn(36, 4)
#~ mended -1 |x = torch.randn(32, 4) + rank
micro = 0
for inputs in x.split(4):
    loss = (model(inputs) - inputs).square().mean() / 4
    loss.backward()
    micro += 1
    if micro % 4 == 0:
        average(model)
        optimizer.step()
        optimizer.zero_grad()
if micro % 4:
    average(model)
    optimizer.step()
shown = loss.detach()
dist.all_reduce(shown)
dist.destroy_process_group()
