# misconception: no_such_method
from torch.nn.parallel import DistributedDataParallel as DDP


def expose(net):
    net = DDP(net)

    def encode(x):
        return net.encode(x)

    def decode(code):
        return net.decode(code)

    return encode, decode
