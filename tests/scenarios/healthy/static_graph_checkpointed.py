# kind: none
# ranks: 2
# static_graph=True used as it is meant: a layer used twice under reentrant checkpointing, the same in every step.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.unused, self.last = (
            torch.nn.Linear(4, 4),
            torch.nn.Linear(4, 4),
            torch.nn.Linear(4, 1),
        )

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.inner, x, use_reentrant=True).tanh()
        return self.last(x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Recurrent(), static_graph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4, requires_grad=True)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
