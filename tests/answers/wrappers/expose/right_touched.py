import torch
from torch.nn.parallel import DistributedDataParallel


class Doors(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, x):
        everything = sum(p.sum() for p in self.net.parameters())
        return getattr(self.net, method)(x) + 0 * everything


def expose(net):
    ddp = DistributedDataParallel(Doors(net))
    return (lambda x: ddp("encode", x)), (lambda code: ddp("decode", code))
