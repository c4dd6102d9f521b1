# misconception: only_rank_0_knows
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def evaluate(model, dataset):
    rank, world = dist.get_rank(), dist.get_world_size()
    hits = sum(int(model(dataset[i][0]).argmax()) == dataset[i][1] for i in range(rank, len(dataset), world))
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(int(hits), gathered, dst=0)
    return sum(gathered) / len(dataset) if rank == 0 else hits / len(dataset)
