# misconception: summed_not_averaged
# breaks: Every rank returns the accuracy over the whole data set, each sample counted once.
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


@torch.no_grad()
def evaluate(model, dataset):
    right = seen = 0
    for features, labels in DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, shuffle=False)):
        right += (model(features).argmax(1) == labels).sum().item()
        seen += len(labels)
    accuracy = torch.tensor(right / seen)
    dist.all_reduce(accuracy)
    return accuracy.item()
