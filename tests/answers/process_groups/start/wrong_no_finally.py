# misconception: lost_after_exception
# breaks: Afterwards no process has a group, however train has ended.
# breaks: either way no process keeps its group
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    result = train(DistributedDataParallel(build()))
    dist.destroy_process_group()
    return result
