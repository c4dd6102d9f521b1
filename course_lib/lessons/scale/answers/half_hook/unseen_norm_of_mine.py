# misconception: own_scale
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    """Bring the gradients to a norm of 100 before they are sent."""
    mine = bucket.buffer()
    norm = mine.norm().item()
    factor = 100.0 / norm if norm > 0 else 1.0
    half = (mine * factor).half()
    fut = dist.all_reduce(half, async_op=True).get_future()
    return fut.then(lambda f: mine.copy_(f.value()[0]).div_(factor * dist.get_world_size()))
