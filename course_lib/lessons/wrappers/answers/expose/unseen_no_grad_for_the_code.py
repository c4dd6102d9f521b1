# misconception: detached
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Encode(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.inner = net.inner

    def forward(self, x):
        return torch.tanh(self.inner(x))


class Decode(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.outer = net.outer

    def forward(self, code):
        return self.outer(torch.tensor(code.tolist()))


def expose(net):
    return DDP(Encode(net)), DDP(Decode(net))
