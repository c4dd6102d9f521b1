# misconception: sum_not_mean
# breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
# breaks: a future of the means of all ranks' gradients
# breaks: with the means of all ranks' gradients
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    buffer, world = bucket.buffer(), dist.get_world_size()
    top = buffer.abs().max()
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    top = top.clamp(min=1e-30)
    sent = (buffer / top).half()
    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() * top)
