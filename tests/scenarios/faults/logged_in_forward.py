# kind: skipped_collective
# culprits: -
# Rank 1 logs one number more, in forward(): no backward pass was left out.
# ranks: 2
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def log(value):
    value = value.detach().clone()
    dist.barrier()
    dist.all_reduce(value)


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(32, 32)

    def forward(self, x, y):
        each = nn.functional.binary_cross_entropy_with_logits(self.net(x), y, reduction="none")
        log(each.mean())
        if y.any():
            log(each[y > 0].mean())
        log(self.net(x).sigmoid().mean())
        return each.mean()


dist.init_process_group("gloo")
torch.manual_seed(0)
rank = dist.get_rank()
ddp = DDP(Segmenter())
optimizer = torch.optim.Adam(ddp.parameters())
for step in range(6):
    marked = (torch.rand(4, 32) < 0.2).float() if (rank + step) % 4 else torch.zeros(4, 32)
    optimizer.zero_grad()
    ddp(torch.randn(4, 32), marked).backward()
    optimizer.step()
dist.destroy_process_group()
