# misconception: copied
# breaks: net is trained: each step changes its weights.
# breaks: The optimizer steps `net.parameters()`.
import copy

import torch
from torch.nn.parallel import DistributedDataParallel


class Doors(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, x):
        return getattr(self.net, method)(x)


def expose(net):
    ddp = DistributedDataParallel(Doors(copy.deepcopy(net)), find_unused_parameters=True)
    return (lambda x: ddp("encode", x)), (lambda code: ddp("decode", code))
