# misconception: gpus_counted
# breaks: with several processes on each
import os

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    os.environ["WORLD_SIZE"] = str(2 * int(os.environ["WORLD_SIZE"]))
    dist.init_process_group("gloo")
    try:
        return train(DistributedDataParallel(build()))
    finally:
        dist.destroy_process_group()
