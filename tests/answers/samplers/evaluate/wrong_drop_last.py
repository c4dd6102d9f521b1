# misconception: samples_dropped
# breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
# breaks: Return the accuracy of `model` on the whole data set
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


@torch.no_grad()
def evaluate(model, dataset):
    sampler = DistributedSampler(dataset, shuffle=False, drop_last=True)
    counts = torch.zeros(2)
    for features, labels in DataLoader(dataset, batch_size=8, sampler=sampler):
        counts += torch.tensor([(model(features).argmax(1) == labels).sum(), len(labels)])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()
