from functools import partial

import torch
from torch.nn.parallel import DistributedDataParallel


class Doors(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, *args):
        return getattr(self.net, method)(*args)


def expose(net):
    ddp = DistributedDataParallel(Doors(net), find_unused_parameters=True)
    return partial(ddp, "encode"), partial(ddp, "decode")
