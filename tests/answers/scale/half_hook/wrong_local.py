# misconception: nothing_sent
# breaks: Every rank has the mean of all ranks' gradients, up to the rounding of halves.
# breaks: a future of the means of all ranks' gradients
import torch


def half_hook(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer().bfloat16().float())
    return future
