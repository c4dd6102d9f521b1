# misconception: read_too_early
# breaks: Every rank returns what was written.
import time

import torch.distributed as dist

culprit = 1
cause = "late"


def checkpoint(writer, write, read):
    if dist.get_rank() == writer:
        write()
    else:
        time.sleep(10)  # long enough
    return read()
