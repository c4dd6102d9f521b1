# By way of torch's own errors, and with a store of its own address.
import datetime
import os

import torch.distributed as dist


def setup(timeout):
    try:
        dist.get_rank()
    except ValueError:
        dist.init_process_group(
            backend="cpu:gloo",
            init_method="env://",
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
            timeout=datetime.timedelta(milliseconds=1000 * timeout),
        )
    return dist.group.WORLD


def cleanup():
    try:
        dist.destroy_process_group()
    except AssertionError:
        return
