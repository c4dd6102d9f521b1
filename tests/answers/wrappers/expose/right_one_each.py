import torch
from torch.nn.parallel import DistributedDataParallel


class Method(torch.nn.Module):
    """A method as a module; `part` has the parameters it uses."""

    def __init__(self, method, part):
        super().__init__()
        self.method, self.part = method, part

    def forward(self, x):
        return self.method(x)


def expose(net):
    encode = DistributedDataParallel(Method(net.encode, net.inner))
    decode = DistributedDataParallel(Method(net.decode, net.outer))
    return encode, decode
