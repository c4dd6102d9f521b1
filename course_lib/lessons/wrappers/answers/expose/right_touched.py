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
#~ decode_around -2 |        return getattr(self.net, method)(x)
#~ flag -2 |        return getattr(self.net, method)(x)
#~ no_flag -2 |        return getattr(self.net, method)(x)
#~ static -2 |        return getattr(self.net, method)(x)
#~ static_and_flag -2 |        return getattr(self.net, method)(x)


def expose(net):
    ddp = DistributedDataParallel(Doors(net))
#~ flag -1 |    ddp = DistributedDataParallel(Doors(net), find_unused_parameters=True)
#~ static -1 |    ddp = DistributedDataParallel(Doors(net), static_graph=True)
#~ static_and_flag -1 |    ddp = DistributedDataParallel(Doors(net), static_graph=True, find_unused_parameters=True)
#~ copy -1 |    ddp = DistributedDataParallel(Doors(copy.deepcopy(net)))
    return (lambda x: ddp("encode", x)), (lambda code: ddp("decode", code))
#~ decode_around -2 |    ddp = DistributedDataParallel(Doors(net), find_unused_parameters=True)
#~ |    return (lambda x: ddp("encode", x)), net.decode

#~ copy: misconception: copied
#~ copy: breaks: net is trained: each step changes its weights.
#~ decode_around: misconception: around_the_wrapper
#~ flag: misconception: side_by_side
#~ no_flag: misconception: unused_not_expected
#~ static: misconception: graph_not_static
#~ static_and_flag: misconception: graph_not_static
