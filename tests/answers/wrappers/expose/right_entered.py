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
#~ methods_of_ddp -13 |    ddp = DistributedDataParallel(net)
#~ |    return ddp.encode, ddp.decode
#~ module -13 |    ddp = DistributedDataParallel(net)
#~ |    return ddp.module.encode, ddp.module.decode

#~ methods_of_ddp: misconception: no_such_method
#~ module: misconception: around_the_wrapper
#~ module: breaks: After each step, all ranks have the weights of one process that has all samples.
