# misconception: unused_not_expected
# breaks: or only one of them
import torch
from torch.nn.parallel import DistributedDataParallel


class Doors(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, x):
        return getattr(self.net, method)(x)


def expose(net):
    ddp = DistributedDataParallel(Doors(net))
    return (lambda x: ddp("encode", x)), (lambda code: ddp("decode", code))
