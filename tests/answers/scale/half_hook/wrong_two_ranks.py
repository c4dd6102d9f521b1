# misconception: none
# breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
# breaks: on any number of ranks
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    """bf16 has the range of fp32: no scale."""
    buffer = bucket.buffer()
    sent = (buffer / 2).bfloat16()
    dist.all_reduce(sent)
    future = torch.futures.Future()
    future.set_result(sent.to(buffer.dtype))
    return future
