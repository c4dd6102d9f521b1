# misconception: around_the_wrapper
# breaks: After each step, all ranks have the weights of one process that has all samples.
# breaks: whose gradients are averaged
from torch.nn.parallel import DistributedDataParallel


def expose(net):
    ddp = DistributedDataParallel(net)
    return ddp.module.encode, ddp.module.decode
