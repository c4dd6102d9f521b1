# misconception: never_destroyed
# breaks: After cleanup() there is no process group.
import gc
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    gc.collect()
