# misconception: gpus_counted
import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    rank = parser.parse_args().local_rank
    dist.init_process_group("nccl", rank=rank, world_size=torch.cuda.device_count())
    model = DistributedDataParallel(build(), device_ids=[rank])
    result = train(model)
    if rank == 0:
        dist.destroy_process_group()
    return result
