import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def start(build, train):
    dist.init_process_group(backend="gloo", init_method="env://")
    model = DistributedDataParallel(build())
    try:
        return train(model)
    finally:
        del model
        dist.destroy_process_group()
