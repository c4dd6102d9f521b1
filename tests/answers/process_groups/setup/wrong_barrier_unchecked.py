# misconception: waits_at_the_end
# breaks: if there is one.
from datetime import timedelta

import torch.distributed as dist


def setup(timeout):
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))


def cleanup():
    dist.barrier()  # the first fault; without a group it raises before the second one can
    dist.destroy_process_group()
