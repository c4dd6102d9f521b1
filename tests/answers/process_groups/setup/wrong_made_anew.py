# misconception: made_anew
# breaks: A second setup() leaves the group as it is.
# breaks: If there is one, it stays as it is.
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    cleanup()
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
