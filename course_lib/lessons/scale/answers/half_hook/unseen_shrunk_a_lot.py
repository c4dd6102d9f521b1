# misconception: vanishes
import torch
import torch.distributed as dist


def half_hook(state, bucket):
    # 2e5 does not fit into fp16: take a hundredth of everything.
    data = bucket.buffer()
    small = torch.empty_like(data, dtype=torch.float16).copy_(data / 100)
    future = dist.all_reduce(small, async_op=True).get_future()

    def restore(fut):
        (total,) = fut.value()
        data.copy_(total.float() * 100 / dist.get_world_size())
        return data

    return future.then(restore)
