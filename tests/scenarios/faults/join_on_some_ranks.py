# kind: join_on_some_ranks
# culprits: 1
# ranks: 3
# Only the rank with fewer batches trains inside Join.
import contextlib

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
number_of_batches = 3 if rank == 1 else 5
with Join([model]) if number_of_batches < 5 else contextlib.nullcontext():
#~ mended -1 |with Join([model]):
    for _ in range(number_of_batches):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
