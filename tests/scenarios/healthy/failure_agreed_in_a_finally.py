# kind: none
# ranks: 2
# A rank that could not read its part says so in `finally`, where all ranks come to: then all leave that part out.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def read(part):
    if part == 3:
        raise OSError("the file is damaged")
    return torch.randn(4, 4)


def rows(part):
    failed = torch.ones(1)
    try:
        found = read(part)
        failed.zero_()
    except OSError:
        found = None
    finally:
        dist.all_reduce(failed)
    return None if failed.item() else found


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    batch = rows(2 * step + dist.get_rank())
    if batch is None:
        continue
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
