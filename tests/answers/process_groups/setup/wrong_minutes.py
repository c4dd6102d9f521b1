# misconception: none
# breaks: `timeout` in seconds
# breaks: The group's timeout is the one asked for.
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(minutes=timeout))


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
