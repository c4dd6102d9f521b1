# kind: unused_parameters
# culprits: -
# ranks: 2
# A try/except meant for bad samples hides the error about unused parameters: nothing is trained after the first step.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used = torch.nn.Linear(4, 1)
        self.auxiliary = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.used(x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    try:
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    except RuntimeError:
        continue
dist.destroy_process_group()
