# misconception: overflows
# breaks: Gradients are finite.
# breaks: for huge ones (10⁵)
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    buffer, world = bucket.buffer(), dist.get_world_size()
    scale = 2.0**16
    sent = (buffer * scale / world).half()
    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() / scale)
