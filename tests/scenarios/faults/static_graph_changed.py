# kind: graph_changed
# culprits: -
# ranks: 2
# static_graph=True, and from the third step on a head is trained as well.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.first, self.second = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, both):
        x = self.body(x).relu()
        return self.first(x) + self.second(x) if both else self.first(x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(TwoHeads(), static_graph=True)
#~ mended -1 |model = DDP(TwoHeads(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4), both=step >= 2).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
