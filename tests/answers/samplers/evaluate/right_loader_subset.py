import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset


@torch.inference_mode()
def evaluate(model, dataset):
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = Subset(dataset, list(range(rank, len(dataset), world)))
    hits = torch.tensor(0)
    for features, labels in DataLoader(mine, batch_size=7):
        hits += (model(features).argmax(dim=1) == labels).sum()
    dist.all_reduce(hits, op=dist.ReduceOp.SUM)
    return hits / len(dataset)
