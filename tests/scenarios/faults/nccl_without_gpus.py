# kind: nccl_without_gpu
# culprits: -
# ranks: 2
# Written for GPUs, run on a laptop.
import os

import torch
import torch.distributed as dist

os.environ["CUDA_VISIBLE_DEVICES"] = ""
dist.init_process_group("nccl")
#~ mended -1 |dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
