# misconception: nccl_without_gpu
# breaks: and without GPUs
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("nccl")
    try:
        return train(DistributedDataParallel(build()))
    finally:
        dist.destroy_process_group()
