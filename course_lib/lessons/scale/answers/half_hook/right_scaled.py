import torch
import torch.distributed as dist


def half_hook(state, bucket):
    gradients, world = bucket.buffer(), dist.get_world_size()
    top = gradients.abs().max().reshape(1)
#~ sum -2 |    buffer, world = bucket.buffer(), dist.get_world_size()
#~ |    top = buffer.abs().max()
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    top = max(top.item(), 1e-30)
    small = (gradients / top / world).to(torch.float16)
    return (
        dist.all_reduce(small, async_op=True)
        .get_future()
        .then(lambda done: gradients.copy_(done.value()[0].float() * top))
    )
#~ sum -7 |    top = top.clamp(min=1e-30)
#~ |    sent = (buffer / top).half()
#~ |    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() * top)

#~ sum: misconception: sum_not_mean
#~ sum: breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
