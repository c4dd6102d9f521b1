# misconception: overflows
import torch
import torch.distributed as dist

LIFT = 1024.0


def half_hook(state, bucket):
    buffer = bucket.buffer()
    lifted = buffer.mul(LIFT).div(dist.get_world_size()).to(torch.float16)
    work = dist.all_reduce(lifted, async_op=True)

    def back(fut):
        buffer.copy_(fut.value()[0])
        return buffer.div_(LIFT)

    return work.get_future().then(back)
