# misconception: model_kept
# breaks: The wrapped model is gone when its group is destroyed.
# breaks: Whoever destroys a group lets go of the wrapped model first.
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group("gloo")
    model = DistributedDataParallel(build())
    try:
        return train(model)
    finally:
        dist.destroy_process_group()
