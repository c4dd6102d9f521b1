# kind: gradients_changed
# culprits: 0
# ranks: 3
# Only rank 0 clips its gradients.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    (100 * model(torch.randn(8, 4))).square().mean().backward()
    if rank == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
#~ mended -2 |    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
dist.destroy_process_group()
