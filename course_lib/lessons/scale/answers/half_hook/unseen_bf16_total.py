# misconception: sum_not_mean
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    compressed = bucket.buffer().type(torch.bfloat16)
    fut = dist.all_reduce(compressed, op=dist.ReduceOp.SUM, async_op=True).get_future()

    def decompress(f):
        out = bucket.buffer()
        out.copy_(f.value()[0])
        return out

    return fut.then(decompress)
