# misconception: model_kept
# breaks: train gets a model whose gradients are averaged over all processes.
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
