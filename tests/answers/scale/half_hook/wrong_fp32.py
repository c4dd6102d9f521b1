# misconception: all_bytes
# breaks: About half the bytes are sent.
# breaks: Send half the bytes.
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    buffer, world = bucket.buffer(), dist.get_world_size()
    sent = buffer / world
    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0])
