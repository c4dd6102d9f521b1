# misconception: nothing_sent
import torch


def half_hook(state, bucket):
    flat = bucket.buffer()
    flat.copy_(flat.to(torch.bfloat16))
    future = torch.futures.Future()
    future.set_result(flat)
    return future
