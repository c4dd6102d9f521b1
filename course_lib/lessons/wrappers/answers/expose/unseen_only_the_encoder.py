# misconception: around_the_wrapper
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Encoder(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net.encode(x)


def expose(net):
    wrapped = DistributedDataParallel(Encoder(net), find_unused_parameters=True)
    return wrapped, wrapped.module.net.decode
