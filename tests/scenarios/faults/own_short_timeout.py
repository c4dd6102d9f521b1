# kind: collective_timed_out
# culprits: 1
# ranks: 2
# The group has a timeout of a second, and one rank reads its data for longer.
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=1))
x = torch.ones(4)
dist.all_reduce(x)
if dist.get_rank() == 1:
    time.sleep(3)
dist.all_reduce(x)
