import torch
import torch.distributed as dist
#~ local -1


def half_hook(state, bucket):
    """bf16 has the range of fp32: no scale."""
    buffer = bucket.buffer()
    sent = (buffer / dist.get_world_size()).bfloat16()
#~ two_ranks -1 |    sent = (buffer / 2).bfloat16()
    dist.all_reduce(sent)
#~ local -4
    future = torch.futures.Future()
    future.set_result(sent.to(buffer.dtype))
#~ local -1 |    future.set_result(bucket.buffer().bfloat16().float())
    return future
#~ fp32 -7 |    buffer, world = bucket.buffer(), dist.get_world_size()
#~ |    sent = buffer / world
#~ |    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0])
#~ loss_scale -7 |    buffer, world = bucket.buffer(), dist.get_world_size()
#~ |    scale = 2.0**16
#~ |    sent = (buffer * scale / world).half()
#~ |    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() / scale)
#~ own_scale -7 |    buffer, world = bucket.buffer(), dist.get_world_size()
#~ |    top = buffer.abs().max().clamp(min=1e-30)
#~ |    sent = (buffer / top / world).half()
#~ |    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() * top)
#~ small_step -7 |    buffer, world = bucket.buffer(), dist.get_world_size()
#~ |    sent = (buffer / 1000 / world).half()
#~ |    return dist.all_reduce(sent, async_op=True).get_future().then(lambda done: done.value()[0].float() * 1000)
#~ tensor -3 |    return sent.to(buffer.dtype)

#~ fp32: misconception: all_bytes
#~ fp32: breaks: About half the bytes are sent.
#~ local: misconception: nothing_sent
#~ local: breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
#~ loss_scale: misconception: overflows
#~ loss_scale: breaks: Gradients are finite.
#~ own_scale: misconception: own_scale
#~ own_scale: breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
#~ small_step: misconception: vanishes
#~ small_step: breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
#~ tensor: misconception: none
#~ two_ranks: misconception: none
#~ two_ranks: breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
