# misconception: added_up
import torch.distributed as dist


def expose(net):
    for tensor in net.state_dict().values():
        dist.broadcast(tensor, 0)

    def add(grad):
        total = grad.clone()
        dist.all_reduce(total)
        return total

    for parameter in net.parameters():
        parameter.register_hook(add)
    return net.encode, net.decode
