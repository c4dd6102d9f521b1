# kind: parameter_ready_twice
# culprits: -
# ranks: 2
# Two forwards through different branches, one backward, with find_unused_parameters=True.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Siamese(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = torch.nn.ModuleDict({"left": torch.nn.Linear(4, 2), "right": torch.nn.Linear(4, 2)})

    def forward(self, x, side):
        return self.branches[side](x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Siamese(), find_unused_parameters=True)
for _ in range(3):
    left, right = model(torch.randn(8, 4), "left"), model(torch.randn(8, 4), "right")
    (left - right).square().mean().backward()
dist.destroy_process_group()
