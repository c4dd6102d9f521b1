# misconception: none
# breaks: gloo
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("nccl", timeout=timedelta(seconds=timeout))


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
