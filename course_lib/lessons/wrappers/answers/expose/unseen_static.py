# misconception: graph_not_static
import torch
from torch.nn.parallel import DistributedDataParallel


def expose(net):
    class Calls(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.auto = net
            self.mode = "encode"

        def forward(self, x):
            return self.auto.encode(x) if self.mode == "encode" else self.auto.decode(x)

    calls = Calls()
    ddp = DistributedDataParallel(calls, static_graph=True)

    def encode(x):
        calls.mode = "encode"
        return ddp(x)

    def decode(x):
        calls.mode = "decode"
        return ddp(x)

    return encode, decode
