# kind: swallowed_error
# culprits: 1
# ranks: 2
# Out of memory in backward on one rank is caught and forgotten.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Hungry(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, extra):
        ctx.extra = extra
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        torch.empty(ctx.extra)
        return gradient, None


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    loss = Hungry.apply(model(torch.randn(8, 4)), 1 << 50 if rank == 1 and step == 2 else 1).mean()
    try:
        loss.backward()
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        continue
    optimizer.step()
dist.destroy_process_group()
