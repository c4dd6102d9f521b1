# misconception: some_ranks_destroy
# breaks: Afterwards no process has a group, however train has ended.
# breaks: either way no process keeps its group
# breaks: and end it properly
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    try:
        return train(DistributedDataParallel(build()))
    finally:
        if dist.get_rank() == 0:
            dist.destroy_process_group()
