# misconception: padding_counted
# breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
# breaks: as one process alone would find it
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


@torch.no_grad()
def evaluate(model, dataset):
    counts = torch.zeros(2)
    for features, labels in DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, shuffle=False)):
        counts[0] += (model(features).argmax(1) == labels).sum()
        counts[1] += len(labels)
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])
