# misconception: added_up
# breaks: after it, every gradient is to be the mean over the ranks
import torch.distributed as dist


def expose(net):
    def average(parameter):
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)

    for parameter in net.parameters():
        dist.broadcast(parameter.data, src=0)
        parameter.register_post_accumulate_grad_hook(average)
    return net.encode, net.decode
