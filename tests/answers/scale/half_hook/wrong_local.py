# misconception: nothing_sent
import torch


def half_hook(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer().bfloat16().float())
    return future
