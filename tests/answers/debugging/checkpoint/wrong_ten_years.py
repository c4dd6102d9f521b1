# misconception: none
# breaks: No group waits for ever.
# breaks: The script keeps its promise not to hang for ever
from datetime import timedelta

import torch.distributed as dist

culprit = 1
cause = "late"


def checkpoint(writer, write, read):
    group = dist.new_group(timeout=timedelta(days=3650))  # above the longest honest pause
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()
