# kind: unused_parameters
# culprits: -
# ranks: 2
# A head of the model takes no part in the loss.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.used = torch.nn.Linear(4, 1)
        self.unused = torch.nn.Linear(4, 2)

    def forward(self, x):
        hidden = self.body(x).relu()
        return self.used(hidden), self.unused(hidden)


dist.init_process_group("gloo")
model = DDP(TwoHeads())
#~ mended -1 |model = DDP(TwoHeads(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    score, _ = model(torch.randn(8, 4))
    score.mean().backward()
    optimizer.step()
dist.destroy_process_group()
