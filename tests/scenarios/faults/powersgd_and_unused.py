# kind: different_collectives
# culprits: -
# ranks: 2
# PowerSGD's hook issues collectives when others have ended, and races with the ones of find_unused_parameters=True.
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 16))
model = DDP(net, find_unused_parameters=True)
state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=3)
model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
