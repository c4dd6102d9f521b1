import torch.distributed as dist


def expose(net):
    def average(parameter):
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
#~ added_up -1 |        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)

    for parameter in net.parameters():
        dist.broadcast(parameter.data, src=0)
#~ no_broadcast -1
        parameter.register_post_accumulate_grad_hook(average)
#~ broadcast_only -1
#~ not_returned -1 |        parameter.register_hook(lambda gradient: dist.all_reduce(gradient))
    return net.encode, net.decode

#~ added_up: misconception: added_up
#~ broadcast_only: misconception: around_the_wrapper
#~ not_returned: misconception: added_up
#~ no_broadcast: misconception: not_equal_at_start
#~ no_broadcast: breaks: All ranks begin with rank 0's weights.
