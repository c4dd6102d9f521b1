# misconception: cut
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def everything(mine, sizes):
    parts = []
    for rank, size in enumerate(sizes):
        part = torch.empty(size, mine.shape[1], dtype=mine.dtype)
        if rank == dist.get_rank():
            part.copy_(mine.detach())
        dist.broadcast(part, src=rank)
        parts.append(part)
    return torch.cat(parts)


def contrast(one, other, temperature, sizes):
    a, b = everything(one, sizes), everything(other, sizes)
    scores, places = a @ b.T / temperature, torch.arange(len(a))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
