# misconception: all_bytes
import torch.distributed as dist


def half_hook(state, bucket):
    grads = bucket.buffer()
    grads.div_(dist.get_world_size())
    handle = dist.all_reduce(grads, async_op=True)
    return handle.get_future().then(lambda _: grads)
