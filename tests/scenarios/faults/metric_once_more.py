# kind: extra_collective
# culprits: 0
# ranks: 2
# Losses are reduced one by one, and on one rank a warning adds an entry to them.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for step in range(8):
        x = torch.randn(16, 5)
        if (step, rank) == (4, 0):
            x[3] = 1e4
        mean, spread = model(x).T
        losses = [(mean - x[:, 0]).square().mean(), (spread - x[:, 1]).abs().mean()]
        optimizer.zero_grad()
        sum(losses).clamp(max=10).backward()
        optimizer.step()
        if mean.max() > 100:
            losses.append(mean.max())
#~ mended -1 |            print("large", mean.max())
        for loss in losses:
            dist.all_reduce(loss.detach())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
