# misconception: none
# breaks: All ranks are in it: a sum over the group is the sum over all ranks.
# breaks: `setup(timeout)` makes the default process group
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=timedelta(seconds=timeout))


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
