# misconception: local_rank_as_rank
# breaks: on two machines
# breaks: Start this process' part of the training
import os

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    rank, size = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=size)
    try:
        return train(DistributedDataParallel(build()))
    finally:
        dist.destroy_process_group()
