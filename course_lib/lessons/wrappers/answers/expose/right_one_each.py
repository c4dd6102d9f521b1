import torch
from torch.nn.parallel import DistributedDataParallel


class Method(torch.nn.Module):
    """A method as a module; `part` has the parameters it uses."""

    def __init__(self, method, part):
        super().__init__()
        self.method, self.part = method, part

    def forward(self, x):
        return self.method(x)


def expose(net):
    encode = DistributedDataParallel(Method(net.encode, net.inner))
    decode = DistributedDataParallel(Method(net.decode, net.outer))
#~ around_all -2 |    encode = DistributedDataParallel(Method(net.encode, net))
#~ |    decode = DistributedDataParallel(Method(net.decode, net))
#~ around_all_flag -2 |    encode = DistributedDataParallel(Method(net.encode, net), find_unused_parameters=True)
#~ |    decode = DistributedDataParallel(Method(net.decode, net), find_unused_parameters=True)
#~ exchanged -2 |    encode = DistributedDataParallel(Method(net.encode, net.outer))
#~ |    decode = DistributedDataParallel(Method(net.decode, net.inner))
    return encode, decode
#~ code_detached -1 |    return encode, lambda code: decode(code.detach())
#~ no_forward -3 |    ddp = DistributedDataParallel(net)
#~ |    return ddp, ddp
#~ no_sync -1 |    def quietly(code):
#~ |        with decode.no_sync():
#~ |            return decode(code)
#~ |
#~ |    return encode, quietly
#~ encoder_only -1 |    return encode, net.decode
#~ methods_of_ddp -3 |    ddp = DistributedDataParallel(net)
#~ |    return ddp.encode, ddp.decode
#~ methods_called -3 |    ddp = DistributedDataParallel(net)
#~ |    return lambda x: ddp.encode(x), lambda code: ddp.decode(code)
#~ module -3 |    ddp = DistributedDataParallel(net)
#~ |    return ddp.module.encode, ddp.module.decode
#~ modules_of_each -1 |    return encode.module, decode.module

#~ around_all: misconception: unused_not_expected
#~ around_all_flag: misconception: around_the_wrapper
#~ code_detached: misconception: detached
#~ no_forward: misconception: no_forward
#~ no_sync: misconception: around_the_wrapper
#~ encoder_only: misconception: around_the_wrapper
#~ encoder_only: breaks: After each step, all ranks have the weights of one process that has all samples.
#~ exchanged: misconception: around_the_wrapper
#~ methods_called: misconception: no_such_method
#~ methods_of_ddp: misconception: no_such_method
#~ module: misconception: around_the_wrapper
#~ module: breaks: After each step, all ranks have the weights of one process that has all samples.
#~ modules_of_each: misconception: around_the_wrapper
