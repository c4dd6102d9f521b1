# kind: skipped_collective
# culprits: -
# ranks: 2
# What is logged is reduced at once. A rank without positive labels leaves one value out; its next one meets it, and fits.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def log(name, value):
    dist.barrier()
    mean = value.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    if dist.get_rank() == 0:
        print(name, round(mean.item(), 3))


def training_step(model, x, y):
    each = nn.functional.binary_cross_entropy_with_logits(model(x), y, reduction="none")
    log("loss", each.mean())
    if y.any():
        log("positive", each[y > 0].mean())
    log("confidence", x.sigmoid().mean())
    return each.mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for step in range(10):
        x = torch.randn(16, 8)
        y = torch.zeros(16, 4) if (step, rank) == (5, 0) else (torch.randn(16, 4) > 0).float()
        optimizer.zero_grad()
        training_step(model, x, y).backward()
        optimizer.step()
    dist.destroy_process_group()


main()
