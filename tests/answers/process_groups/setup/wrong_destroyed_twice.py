# misconception: destroyed_twice
# breaks: if there is one.
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    dist.destroy_process_group()
