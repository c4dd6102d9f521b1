# misconception: no_such_method
# breaks: Return two functions, `encode` and `decode`, for training.
from torch.nn.parallel import DistributedDataParallel


def expose(net):
    ddp = DistributedDataParallel(net)
    return ddp.encode, ddp.decode
