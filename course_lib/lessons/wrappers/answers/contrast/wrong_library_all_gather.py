# misconception: equal_sizes
import torch
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import cross_entropy


def contrast(one, other, temperature, sizes):
    a = torch.cat(all_gather(one.contiguous()))
    b = torch.cat(all_gather(other.contiguous()))
    scores, places = a @ b.T / temperature, torch.arange(len(a))
    return (cross_entropy(scores, places) + cross_entropy(scores.T, places)) / 2
