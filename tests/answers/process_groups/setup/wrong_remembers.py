# misconception: none
# breaks: in the wrong order
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    global group
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    group = dist.group.WORLD


def cleanup():
    global group
    if group is not None:
        dist.destroy_process_group()
        group = None
