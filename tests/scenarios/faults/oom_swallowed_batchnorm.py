# kind: swallowed_error
# culprits: 1
# ranks: 3
# A swallowed out-of-memory error in a model with BatchNorm.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Hungry(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))

    def forward(self, x, extra=0):
        torch.empty(extra)
        return self.body(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(Hungry())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    try:
        loss = model(torch.randn(8, 4), 1 << 50 if rank == 1 and step == 2 else 0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
dist.destroy_process_group()
