# misconception: samples_dropped
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def evaluate(model, dataset):
    sampler = DistributedSampler(dataset, shuffle=False, drop_last=True)
    tally = torch.zeros(2, dtype=torch.float64)
    for i in sampler:
        x, y = dataset[i]
        tally += torch.tensor([int(model(x).argmax()) == y, 1])
    dist.all_reduce(tally)
    return (tally[0] / tally[1]).item()
