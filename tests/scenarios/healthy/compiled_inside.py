# kind: none
# ranks: 2
# A model that is compiled as a whole, and DDP around it; the optimizer's step is compiled, too.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = Net()
net.compile(backend="aot_eager", fullgraph=True)
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
step = torch.compile(optimizer.step, backend="eager")
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 6)).square().mean().backward()
    step()
dist.destroy_process_group()
