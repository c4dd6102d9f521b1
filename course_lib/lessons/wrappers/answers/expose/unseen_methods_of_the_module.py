# misconception: around_the_wrapper
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Both(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net.decode(self.net.encode(x))


def expose(net):
    ddp = DDP(Both(net))

    def encode(x):
        return ddp.module.net.encode(x)

    def decode(code):
        return ddp.module.net.decode(code)

    return encode, decode
