# misconception: option_not_given
# breaks: Now `torchrun` starts it
import argparse
import os

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    rank = parser.parse_args().local_rank
    dist.init_process_group("gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    try:
        return train(DistributedDataParallel(build()))
    finally:
        dist.destroy_process_group()
