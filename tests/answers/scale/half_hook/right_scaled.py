import torch
import torch.distributed as dist


def half_hook(state, bucket):
    gradients, world = bucket.buffer(), dist.get_world_size()
    top = gradients.abs().max().reshape(1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    top = max(top.item(), 1e-30)
    small = (gradients / top / world).to(torch.float16)
    return (
        dist.all_reduce(small, async_op=True)
        .get_future()
        .then(lambda done: gradients.copy_(done.value()[0].float() * top))
    )
