# kind: different_models
# culprits: -
# ranks: 2
# start: spawn
# Heads are made in the order of a set of strings, which is another one in every process; their shapes are equal.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

LOGGED = ["click", "like", "share", "follow", "click", "buy", "hide", "like", "report", "reply"]


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = torch.nn.ModuleDict({action: torch.nn.Linear(4, 1) for action in set(LOGGED)})
#~ mended -1 |        self.heads = torch.nn.ModuleDict({name: torch.nn.Linear(4, 1) for name in sorted(set(LOGGED))})

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
