# kind: skipped_collective
# culprits: 1
# ranks: 3
# The mean loss is reduced for the log after every step; a rank whose loss is no number goes on to the next batch.
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    for step in range(10):
        x = torch.randn(8, 4)
        weight = math.nan if (step, rank) == (6, 1) else 1.0
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logged = loss.detach() * weight
        if torch.isnan(logged):
            continue
        dist.all_reduce(logged)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
