# misconception: not_reduced
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def evaluate(model, dataset):
    part = torch.utils.data.Subset(dataset, list(range(len(dataset)))[dist.get_rank() :: dist.get_world_size()])
    hits = torch.cat([torch.zeros(0)] + [(model(x).argmax(1) == y).float() for x, y in DataLoader(part, 4)])
    return float(hits.mean())
