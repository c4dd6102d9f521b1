# misconception: still_too_short
# breaks: No group gives up during an honest pause, however long it is.
# breaks: however long that takes
# breaks: an honest pause is not a hang
from datetime import timedelta

import torch.distributed as dist

culprit = 1
cause = "late"


def checkpoint(writer, write, read):
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()
