# kind: none
# ranks: 2
# No loader: every rank draws the same numbers for the rows of the whole batch, and takes its part of them.
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    rows = torch.randn(256, 8)
    model = DDP(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(12):
        batch = rows[torch.randint(len(rows), (32 * ranks,))[rank::ranks]]
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


main()
