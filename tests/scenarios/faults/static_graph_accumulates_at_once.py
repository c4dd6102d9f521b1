# kind: static_graph_no_sync
# culprits: -
# ranks: 2
# A static graph, and gradients are accumulated within no_sync() from the first micro-batch on.
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUMULATE = 4


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 1)), static_graph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for number in range(12):
        last = (number + 1) % ACCUMULATE == 0
        with nullcontext() if last else model.no_sync():
#~ mended -1 |        with nullcontext() if last or number < ACCUMULATE else model.no_sync():
            (model(torch.randn(8, 6)).square().mean() / ACCUMULATE).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
