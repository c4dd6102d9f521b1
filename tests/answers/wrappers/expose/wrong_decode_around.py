# misconception: around_the_wrapper
# breaks: Each step calls either both, one after the other
import torch
from torch.nn.parallel import DistributedDataParallel


class Doors(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, x):
        return getattr(self.net, method)(x)


def expose(net):
    ddp = DistributedDataParallel(Doors(net), find_unused_parameters=True)
    return (lambda x: ddp("encode", x)), net.decode
