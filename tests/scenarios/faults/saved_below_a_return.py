# kind: rank_only_collective
# culprits: 0
# ranks: 3
# What saves returns at its beginning on the other ranks; behind that, it adds up how much was trained.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def save(model, rank, seen):
    if rank != 0:
        return
    total = torch.tensor([seen])
    dist.all_reduce(total)
    print("trained on", total.item(), "rows", sum(p.numel() for p in model.parameters()), "weights")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for step in range(12):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        if step % 3 == 2:
            save(model, rank, 8 * (step + 1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
