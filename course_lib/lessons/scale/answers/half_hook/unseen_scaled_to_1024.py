# misconception: own_scale
import torch.distributed as dist


def half_hook(state, bucket):
    g = bucket.buffer()
    n = dist.get_world_size()
    biggest = float(g.abs().max())
    scale = 1024 / n / biggest if biggest else 1.0
    g16 = (g * scale).half()

    def then(fut):
        return g.copy_(fut.value()[0]) / scale / n

    return dist.all_reduce(g16, async_op=True).get_future().then(then)
