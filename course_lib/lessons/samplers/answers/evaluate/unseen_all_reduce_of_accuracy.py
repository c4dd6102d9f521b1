# misconception: summed_not_averaged
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def evaluate(model, dataset):
    scores = []
    with torch.no_grad():
        for i in range(dist.get_rank(), len(dataset), dist.get_world_size()):
            x, y = dataset[i]
            scores.append(float(model(x).argmax() == y))
    accuracy = torch.tensor([sum(scores) / max(len(scores), 1)])
    dist.all_reduce(accuracy, op=dist.ReduceOp.SUM)
    return accuracy.item()
