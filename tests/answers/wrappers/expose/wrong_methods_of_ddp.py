# misconception: no_such_method
from torch.nn.parallel import DistributedDataParallel


def expose(net):
    ddp = DistributedDataParallel(net)
    return ddp.encode, ddp.decode
