# misconception: vanishes
# breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
# breaks: It works for tiny gradients
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    buffer, world = bucket.buffer(), dist.get_world_size()
    sent = (buffer / 1000 / world).half()
    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() * 1000)
