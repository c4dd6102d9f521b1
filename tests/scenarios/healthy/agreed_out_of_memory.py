# kind: none
# ranks: 2
# All ranks agree that a step is left out.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    ok = torch.ones(1)
    try:
        torch.empty(1 << 50 if rank == 1 and step == 2 else 1)
        loss = model(torch.randn(8, 4)).square().mean()
    except RuntimeError:
        ok.zero_()
    dist.all_reduce(ok, op=dist.ReduceOp.MIN)
    if not ok:
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
