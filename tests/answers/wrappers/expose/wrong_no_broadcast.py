# misconception: not_equal_at_start
# breaks: All ranks begin with rank 0's weights.
import torch.distributed as dist


def expose(net):
    def average(parameter):
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    return net.encode, net.decode
