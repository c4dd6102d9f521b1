# misconception: copied
from copy import deepcopy

import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Coder(torch.nn.Module):
    def __init__(self, part, tanh):
        super().__init__()
        self.part, self.tanh = deepcopy(part), tanh

    def forward(self, x):
        out = self.part(x)
        return out.tanh() if self.tanh else out


def expose(net):
    encoder, decoder = Coder(net.inner, True), Coder(net.outer, False)
    return DDP(encoder), DDP(decoder)
