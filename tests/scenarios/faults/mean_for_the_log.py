# kind: rank_only_collective
# culprits: 0
# ranks: 2
# The loss is averaged over the ranks to be printed, and only one rank prints.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def averaged(value):
    value = value.clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()


def log(step, loss):
    print(f"step {step}: loss {averaged(loss).item():.3f}")


def main():
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        loss = model(torch.randn(16, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 2 == 1:
#~ mended -1 |        if step % 2 == 1:
            log(step, loss.detach())


main()
