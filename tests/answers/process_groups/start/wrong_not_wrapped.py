# misconception: none
# breaks: `train(model)` takes it wrapped
# breaks: train gets a model whose gradients are averaged over all processes.
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    try:
        return train(build())
    finally:
        dist.destroy_process_group()
