# misconception: no_such_method
import torch
from torch.nn.parallel import DistributedDataParallel


class Exposed:
    def __init__(self, net):
        self.net = DistributedDataParallel(net)

    def encode(self, batch):
        return self.net.encode(batch)

    def decode(self, batch):
        return self.net.decode(batch)


def expose(net):
    exposed = Exposed(net)
    return [exposed.encode, exposed.decode]
