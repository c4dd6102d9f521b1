# misconception: nothing_sent
import torch


def half_hook(state, bucket):
    # all_reduce works on a copy: the buffer is as it was.
    torch.distributed.all_reduce(bucket.buffer().half())
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
