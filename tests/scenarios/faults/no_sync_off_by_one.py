# kind: gradients_not_averaged
# culprits: -
# ranks: 2
# Accumulation over four micro-batches; the one that should be reduced is looked for at the wrong place and never found.
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

ACCUMULATE = 4


def train(model, optimizer):
    for micro in range(12):
        reduce_now = micro % ACCUMULATE == ACCUMULATE
        with contextlib.nullcontext() if reduce_now else model.no_sync():
            (model(torch.randn(8, 4)).square().mean() / ACCUMULATE).backward()
        if (micro + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = DDP(torch.nn.Linear(4, 1))
train(net, torch.optim.SGD(net.parameters(), lr=0.1))
dist.destroy_process_group()
