# misconception: gpus_counted
# breaks: with several processes on each
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", rank=rank, world_size=max(1, torch.cuda.device_count()))
    try:
        return train(DistributedDataParallel(build()))
    finally:
        dist.destroy_process_group()
