# kind: rank_crashed
# culprits: 1
# ranks: 2
# C code on one rank reads where nothing is.
import ctypes

import torch
import torch.distributed as dist


def custom_kernel(x):
    return ctypes.string_at(0)


dist.init_process_group("gloo")
x = torch.ones(4)
for step in range(3):
    if dist.get_rank() == 1 and step == 1:
        custom_kernel(x)
    dist.all_reduce(x)
dist.destroy_process_group()
