# misconception: network_blamed
# breaks: cause says why.
from datetime import timedelta

import torch.distributed as dist

culprit = 1
cause = "network"


def checkpoint(writer, write, read):
    group = dist.new_group(timeout=timedelta(minutes=10))  # above the longest honest pause
    if dist.get_rank() == writer:
        write()
    dist.barrier(group)
    return read()
