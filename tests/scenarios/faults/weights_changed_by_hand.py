# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# The update is written by hand, with gradients from autograd.grad: DDP has averaged none of them.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
for _ in range(6):
    loss = model(torch.randn(8, 4)).square().mean()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= 0.1 * gradient
dist.destroy_process_group()
