# misconception: around_the_wrapper
from torch.nn.parallel import DistributedDataParallel


def expose(net):
    ddp = DistributedDataParallel(net)
    return ddp.module.encode, ddp.module.decode
