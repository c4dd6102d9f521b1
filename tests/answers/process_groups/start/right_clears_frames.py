import traceback

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    try:
        return train(DistributedDataParallel(build()))
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        dist.destroy_process_group()
