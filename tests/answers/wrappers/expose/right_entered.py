from torch.nn.parallel import DistributedDataParallel


def expose(net):
    ddp = DistributedDataParallel(net, find_unused_parameters=True)

    def door(method):
        def call(x):
            net.forward = method
            try:
                return ddp(x)
            finally:
                del net.forward

        return call

    return door(net.encode), door(net.decode)
