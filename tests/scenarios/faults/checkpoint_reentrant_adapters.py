# kind: parameter_ready_twice
# culprits: -
# ranks: 2
# Adapters under reentrant checkpointing, and find_unused_parameters=True: backward runs within backward.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(4, 4).requires_grad_(False)
        self.low, self.high = torch.nn.Linear(4, 2, bias=False), torch.nn.Linear(2, 4, bias=False)

    def forward(self, x):
        return torch.relu(self.base(x) + self.high(self.low(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x):
        x = x.requires_grad_()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
#~ mended -1 |            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


model = DDP(Net(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    better, worse = model(torch.randn(8, 4)), model(torch.randn(8, 4))
    (better - worse).square().mean().backward()
    optimizer.step()
