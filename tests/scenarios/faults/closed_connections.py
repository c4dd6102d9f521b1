# kind: rank_crashed
# culprits: 1
# ranks: 2
# A helper that makes a process a daemon closes every open file of rank 1, the connections to other ranks with them.
import os

import torch
import torch.distributed as dist


def detach():
    os.closerange(3, 512)


dist.init_process_group("gloo")
values = torch.ones(4)
dist.all_reduce(values)
if dist.get_rank() == 1:
    detach()
dist.all_reduce(values)
dist.destroy_process_group()
