# kind: none
# ranks: 2
# Local SGD with torch's own hook and averager.
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
alone, _ = dist.new_subgroups(group_size=1)
state = PostLocalSGDState(None, alone, start_localSGD_iter=2)
model.register_comm_hook(state, post_localSGD_hook)
averager = PeriodicModelAverager(period=2, warmup_steps=2)
for _ in range(9):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    averager.average_parameters(model.parameters())
dist.destroy_process_group()
