# misconception: own_flag
# breaks: After cleanup(), setup() makes a new one.
# breaks: After that, `setup` makes a new one.
from datetime import timedelta

import torch.distributed as dist

done = []


def setup(timeout):
    if not done:
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
        done.append(True)


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
