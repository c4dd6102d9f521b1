# misconception: no_forward
import torch.nn.parallel


def expose(net):
    model = torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)

    def encode(x):
        return model(x)

    def decode(code):
        return model(code)

    return encode, decode
