# misconception: still_too_short
# breaks: No group gives up during an honest pause, however long it is.
from datetime import timedelta

import torch.distributed as dist

culprit = 1
cause = "late"


def checkpoint(writer, write, read):
    if dist.get_rank() == writer:
        write()
    dist.monitored_barrier(timeout=timedelta(seconds=5))
    return read()
