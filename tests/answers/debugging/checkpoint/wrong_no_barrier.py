# misconceptions: read_too_early, still_too_short
# breaks: Every rank returns what was written.
# breaks: All ranks return what `read()` gives once it is written.
# breaks: when it is there, all ranks read it
from datetime import timedelta

import torch.distributed as dist

culprit = 1
cause = "late"


def checkpoint(writer, write, read):
    group = dist.new_group(timeout=timedelta(seconds=0.4))  # better an error than half an hour of silence
    if dist.get_rank() == writer:
        write()
    return read()
