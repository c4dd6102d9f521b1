# misconception: mean_of_means
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def evaluate(model, dataset):
    world, rank = dist.get_world_size(), dist.get_rank()
    indices = [i for i in range(len(dataset)) if i % world == rank]
    good = 0
    for i in indices:
        x, y = dataset[i]
        with torch.no_grad():
            good += model(x[None])[0].argmax().item() == int(y)
    own = good / len(indices) if indices else 0.0
    everyone = [None] * world
    dist.all_gather_object(everyone, own)
    return sum(everyone) / world
