# misconception: not_equal_at_start
import torch.distributed as dist


def expose(net):
    world = dist.get_world_size()

    def hook(grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad / world

    for p in net.parameters():
        p.register_hook(hook)
    return net.encode, net.decode
