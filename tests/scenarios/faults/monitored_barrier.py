# kind: collective_timed_out
# culprits: 1
# ranks: 3
# A monitored_barrier names the rank that does not come.
import time
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    time.sleep(2.5)
else:
    dist.monitored_barrier(timeout=timedelta(seconds=1))
