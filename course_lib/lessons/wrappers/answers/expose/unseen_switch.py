# misconception: unused_not_expected
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


class Switch(torch.nn.Module):
    def __init__(self, auto):
        super().__init__()
        self.auto = auto

    def forward(self, x, decoding=False):
        if decoding:
            return self.auto.decode(x)
        return self.auto.encode(x)


def expose(net):
    ddp = DDP(Switch(net), broadcast_buffers=False)

    def encode(x):
        return ddp(x)

    def decode(code):
        return ddp(code, decoding=True)

    return encode, decode
