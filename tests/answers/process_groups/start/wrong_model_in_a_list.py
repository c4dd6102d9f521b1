# misconception: model_kept
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

MODELS = []


def start(build, train):
    dist.init_process_group("gloo")
    MODELS.append(DistributedDataParallel(build()))
    try:
        return train(MODELS[0])
    finally:
        dist.destroy_process_group()
