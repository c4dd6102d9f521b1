# misconception: own_flag
# breaks: setup(timeout) makes a process group, and there is a cleanup().
from datetime import timedelta

import torch.distributed as dist

started = False


def setup(timeout):
    global started
    if not started:
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
        started = True


def cleanup():
    if dist.is_initialized():
        dist.destroy_process_group()
