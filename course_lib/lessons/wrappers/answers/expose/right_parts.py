from torch.nn.parallel import DistributedDataParallel


def expose(net):
    # The methods stay as they are: what they call is wrapped.
    net.inner = DistributedDataParallel(net.inner)
    net.outer = DistributedDataParallel(net.outer)
#~ outer_alone -2 |    net.outer = DistributedDataParallel(net.outer)
    return net.encode, net.decode

#~ outer_alone: misconception: not_equal_at_start
#~ outer_alone: breaks: All ranks begin with rank 0's weights.
