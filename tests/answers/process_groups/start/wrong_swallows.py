# misconception: none
# breaks: start returns what train returns, and lets its exception pass.
# breaks: what it raises is raised
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    try:
        return train(DistributedDataParallel(build()))
    except Exception as error:
        print("training failed:", error)
    finally:
        dist.destroy_process_group()
