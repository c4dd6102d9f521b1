# misconception: padding_counted
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler


def evaluate(model, dataset):
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset, shuffle=False))
    right, total = 0, 0
    with torch.no_grad():
        for x, y in loader:
            right += int((model(x).argmax(dim=-1) == y).sum())
            total += y.numel()
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, (right, total))
    return sum(r for r, _ in parts) / sum(t for _, t in parts)
