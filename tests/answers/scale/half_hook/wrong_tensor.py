# misconception: none
# breaks: Return a future of the means
# breaks: A future of a tensor like the bucket's buffer
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    """bf16 has the range of fp32: no scale."""
    buffer = bucket.buffer()
    sent = (buffer / dist.get_world_size()).bfloat16()
    dist.all_reduce(sent)
    return sent.to(buffer.dtype)
