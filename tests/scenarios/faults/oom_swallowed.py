# kind: swallowed_error
# culprits: 0
# ranks: 2
# Out of memory on rank 0 is caught, the batch left out, and training goes on one step behind the others.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Hungry(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, extra):
        if extra:
            torch.empty(extra)
        return self.layer(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
model = DDP(Hungry())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    try:
        loss = model(torch.randn(8, 4), 1 << 50 if rank == 0 and step == 2 else 0).mean()
    except RuntimeError:
        continue
#~ mended -2 |        failed = torch.tensor(0.0)
#~ |    except RuntimeError:
#~ |        failed = torch.tensor(1.0)
#~ |    dist.all_reduce(failed)
#~ |    if failed:
#~ |        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
