# misconception: own_scale
# breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
# breaks: where ranks have gradients of different size
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    buffer, world = bucket.buffer(), dist.get_world_size()
    top = buffer.abs().max().clamp(min=1e-30)
    sent = (buffer / top / world).half()
    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() * top)
