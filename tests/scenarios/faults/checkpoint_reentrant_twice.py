# kind: parameter_ready_twice
# culprits: -
# ranks: 2
# A layer is used twice under reentrant checkpointing.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.first = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        x = checkpoint(self.layer, x, use_reentrant=True)
        return checkpoint(self.layer, x, use_reentrant=True)
#~ mended -2 |        x = checkpoint(self.layer, x, use_reentrant=False)
#~ |        return checkpoint(self.layer, x, use_reentrant=False)


dist.init_process_group("gloo")
model = DDP(Shared(), find_unused_parameters=True)
for _ in range(3):
    model(torch.randn(8, 4)).square().mean().backward()
dist.destroy_process_group()
