# misconception: never_destroyed
# breaks: After cleanup() there is no process group.
# breaks: `cleanup()` destroys it
# breaks: Destroy the default process group
import gc
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    gc.collect()
