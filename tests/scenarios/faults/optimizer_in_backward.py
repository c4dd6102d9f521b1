# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# Each parameter is stepped as soon as its gradient is there, so that the gradients are never all in memory.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}


def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(6):
    model(torch.randn(8, 4)).square().mean().backward()
#~ mended -4 |for _ in range(6):
#~ |    model(torch.randn(8, 4)).square().mean().backward()
#~ |    for parameter in model.parameters():
#~ |        step(parameter)
dist.destroy_process_group()
