# misconception: none
# breaks: What `train` returns is returned
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    try:
        train(DistributedDataParallel(build()))
    finally:
        dist.destroy_process_group()
