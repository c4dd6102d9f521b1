# kind: none
# ranks: 2
# start: spawn
# Heads are made from a set of strings that is sorted first: its own order is another one in every process.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

LOGGED = ["click", "like", "share", "follow", "click", "buy", "hide", "like", "report", "reply"]


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = torch.nn.ModuleDict({action: torch.nn.Linear(4, 1) for action in sorted(set(LOGGED))})

    def forward(self, x):
        return sum(head(x) for head in self.heads.values())


dist.init_process_group("gloo")
model = DDP(Heads())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
