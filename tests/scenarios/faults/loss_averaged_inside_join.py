# kind: own_collective_in_join
# culprits: -
# ranks: 2
# The loss of each step is averaged for the log, within Join, and rank 0 has fewer batches.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
with model.join():
    for _ in range(4 + 2 * dist.get_rank()):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
#~ mended -2 |mean = loss.detach().clone()
#~ |dist.all_reduce(mean)
dist.destroy_process_group()
