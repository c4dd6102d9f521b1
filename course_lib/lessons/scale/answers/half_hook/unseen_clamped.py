# misconception: vanishes
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    buffer = bucket.buffer()
    half = (buffer / dist.get_world_size()).clamp(-20000, 20000).half()
    dist.all_reduce(half)
    fut = torch.futures.Future()
    fut.set_result(half.float())
    return fut
