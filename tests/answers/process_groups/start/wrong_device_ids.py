# misconception: device_ids_on_cpu
# breaks: and without GPUs
import os

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    try:
        return train(DistributedDataParallel(build(), device_ids=[int(os.environ["LOCAL_RANK"])]))
    finally:
        dist.destroy_process_group()
