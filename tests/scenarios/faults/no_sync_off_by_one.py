# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# Accumulation over four micro-batches; the last one is under no_sync, too, because of an off-by-one.
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUMULATE = 4


def train(model, optimizer):
    for micro in range(1, 13):
        last = micro % ACCUMULATE == 0
        with contextlib.nullcontext() if micro == ACCUMULATE + 13 else model.no_sync():
            (model(torch.randn(8, 4)).square().mean() / ACCUMULATE).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = DDP(torch.nn.Linear(4, 1))
train(net, torch.optim.SGD(net.parameters(), lr=0.1))
dist.destroy_process_group()
