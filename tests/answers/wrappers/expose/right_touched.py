#~ copy -0 |import copy
#~ |
import torch
from torch.nn.parallel import DistributedDataParallel


class Doors(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, method, x):
        everything = sum(p.sum() for p in self.net.parameters())
        return getattr(self.net, method)(x) + 0 * everything
#~ copy -2 |        return getattr(self.net, method)(x)
#~ decode_around -2 |        return getattr(self.net, method)(x)
#~ no_flag -2 |        return getattr(self.net, method)(x)


def expose(net):
    ddp = DistributedDataParallel(Doors(net))
#~ copy -1 |    ddp = DistributedDataParallel(Doors(copy.deepcopy(net)), find_unused_parameters=True)
    return (lambda x: ddp("encode", x)), (lambda code: ddp("decode", code))
#~ decode_around -2 |    ddp = DistributedDataParallel(Doors(net), find_unused_parameters=True)
#~ |    return (lambda x: ddp("encode", x)), net.decode

#~ copy: misconception: copied
#~ copy: breaks: net is trained: each step changes its weights.
#~ decode_around: misconception: around_the_wrapper
#~ no_flag: misconception: unused_not_expected
