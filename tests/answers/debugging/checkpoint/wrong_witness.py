# misconception: witness
# breaks: culprit is the rank that does something else than the others.
from datetime import timedelta

import torch.distributed as dist

culprit = 0
cause = "late"


def checkpoint(writer, write, read):
    group = dist.new_group(timeout=timedelta(minutes=10))  # above the longest honest pause
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()
