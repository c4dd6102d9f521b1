# kind: group_broken_before
# culprits: 0
# ranks: 2
# Rank 0 waits a moment for a message, gives up, and goes on with the group.
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    try:
        dist.irecv(torch.empty(1), src=1).wait(timedelta(milliseconds=300))
    except RuntimeError:
        print("no news from rank 1")
dist.all_reduce(torch.ones(1))
#~ mended -1 |dist.destroy_process_group()
#~ |dist.init_process_group("gloo")
#~ |dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
