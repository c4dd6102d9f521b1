# kind: swallowed_error
# culprits: 2
# ranks: 3
# A bad sample raises ValueError in the model; the loop goes on.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Picky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        if x.isnan().any():
            raise ValueError("a sample is not a number")
        return self.layer(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(Picky())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(8, 4)
    if rank == 2 and step == 3:
        x[1, 2] = float("nan")
    try:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    except ValueError:
        print("bad batch")
dist.destroy_process_group()
