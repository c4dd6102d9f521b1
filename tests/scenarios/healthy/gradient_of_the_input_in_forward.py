# kind: none
# ranks: 2
# The model's forward makes a backward pass of its own, to its input: DDP has nothing to average in it.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Saliency(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 2)

    def forward(self, x):
        looked_at = x.clone().requires_grad_()
        (looked_at * self.body.weight.detach().sum(0)).tanh().sum().backward()
        return self.body(x + 0.1 * looked_at.grad)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Saliency())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
