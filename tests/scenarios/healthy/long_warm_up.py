# kind: none
# ranks: 2
# A warm-up of as many steps as both ranks make together: it rises, and has not come to its end; another one is over.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def warm_up(optimizer, number):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / number))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
bias, weight = model.module.bias, model.module.weight
optimizers = [torch.optim.SGD([bias], lr=0.1), torch.optim.SGD([weight], lr=0.1)]
schedules = [warm_up(optimizers[0], 16), warm_up(optimizers[1], 4)]
for _ in range(8):
    model.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    for each in (*optimizers, *schedules):
        each.step()
dist.destroy_process_group()
