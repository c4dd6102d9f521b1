# kind: join_on_some_ranks
# culprits: 0
# ranks: 3
# The rank that logs has a training loop of its own, and that has no join().
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step():
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


if rank == 0:
    losses = [step().item() for _ in range(4)]
    print("mean loss", sum(losses) / len(losses))
else:
    with model.join():
        for _ in range(4):
            step()
dist.destroy_process_group()
