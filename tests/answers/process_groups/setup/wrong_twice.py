# misconception: initialised_twice
# breaks: again
# breaks: unless there is one; `timeout` in seconds
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
